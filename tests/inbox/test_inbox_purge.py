"""Expired marks are purged with everything else, and only those."""

import contextlib
import sqlite3

import pytest

from dupeproof import Inbox
from dupeproof.cleanup import Purger
from dupeproof.stores import open_store
from dupeproof.stores.mysql import tables
from support.places import kinds, settled, sqlite_path


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


@kinds("sqlite3")
async def test_between_two_batches_everybody_else_can_write(place):
    """SQLite has one writer; a purge is many of them, one after the other."""
    await place.make_schema()
    async with place.transaction() as connection:
        place.inbox(window="1ms").first_many(connection, range(500))
    written = []
    with contextlib.closing(sqlite3.connect(sqlite_path(place.url), timeout=0)) as other:

        def write(removed):
            assert place.inbox().first(other, len(written))
            other.commit()
            written.append(removed)

        Purger(place.url, batch=100).run_once(write)
    assert written == [100, 200, 300, 400, 500, 500]


@kinds("psycopg")
async def test_nobody_waits_for_a_purge(place):
    await place.make_schema()
    async with place.transaction() as connection:
        place.inbox(window="1ms").first_many(connection, ["a", "b"])
    async with place.transaction() as purging:
        assert place.inbox().purge(purging) == 2
        async with place.transaction() as connection:
            connection.execute("SET LOCAL lock_timeout = '1s'")
            assert place.inbox().first_many(connection, ["c", "d"]) == [True, True]


@kinds("sqlalchemy pymysql")
async def test_nobody_waits_for_a_purge_of_mariadb(place, monkeypatch):
    """Nor for the gap behind the last row, which is where new marks belong."""
    await place.make_schema()
    async with place.transaction() as connection:
        place.inbox(window="1ms").first_many(connection, ["a", "b"])
    purge_inbox, marked = tables.purge_inbox, []

    def purged(adapted, limit):
        gone = purge_inbox(adapted, limit)
        inbox = Inbox("billing", database=place.url)
        with inbox.transaction() as connection:  # while the purge is not committed
            connection.exec_driver_sql("SET innodb_lock_wait_timeout = 1")
            marked.extend(inbox.first_many(connection, ["c", "d"]))
        return gone

    monkeypatch.setattr(tables, "purge_inbox", purged)
    assert tables.MySQLTables(place.url).purge(1_000) == 2
    assert marked == [True, True]
