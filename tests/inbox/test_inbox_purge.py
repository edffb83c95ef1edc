"""Expired marks are purged with everything else, and only those."""

import pytest

from dupeproof.cleanup import Purger
from dupeproof.stores import open_store
from support.places import kinds, settled


@kinds("sqlite3", "psycopg")
async def test_a_purge_takes_what_has_expired_and_nothing_else(place):
    await place.make_schema()
    brief, lasting = place.inbox("brief", window="1ms"), place.inbox("lasting")
    async with place.transaction() as connection:
        assert all(await settled(brief.first_many(connection, range(250))))
        assert all(await settled(lasting.first_many(connection, range(100))))
    store = open_store(place.url)
    assert (store.stats().inbox, store.stats().expired) == (100, 250)
    assert Purger(store, batch=100).run_once().removed == 250
    assert (store.stats().inbox, store.stats().expired) == (100, 0)
    assert Purger(store).run_once().removed == 0
    store.close()
    async with place.transaction() as connection:
        assert not any(await settled(lasting.first_many(connection, range(100))))


@kinds("psycopg")
async def test_a_purge_waits_for_nobody(place):
    await place.make_schema()
    inbox = place.inbox(window="1ms")
    async with place.transaction() as connection:
        assert inbox.first_many(connection, ["a", "b"]) == [True, True]
    store = open_store(place.url)
    async with place.transaction() as connection:
        assert inbox.first(connection, "a") is True  # taken over, not committed yet
        assert store.purge(10) == 1
    assert place.sql("SELECT count(*) FROM dupeproof_inbox") == [(1,)]
    store.close()


@pytest.mark.parametrize("limit", [1, 7])
@kinds("sqlite3", "psycopg")
async def test_a_purge_keeps_to_its_limit(place, limit):
    await place.make_schema()
    async with place.transaction() as connection:
        await settled(place.inbox(window="1ms").first_many(connection, range(20)))
    store = open_store(place.url)
    assert store.purge(limit) == limit
    assert place.sql("SELECT count(*) FROM dupeproof_inbox") == [(20 - limit,)]
    store.close()
