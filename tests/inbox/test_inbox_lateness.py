"""How late duplicates come is counted with the messages themselves, and outlives them."""

import asyncio
import contextlib
import threading
from collections import Counter

import msgspec
import pytest

from dupeproof.cli.app import run
from dupeproof.core.durations import milliseconds
from dupeproof.core.lateness import bucket_of
from dupeproof.stores import open_store
from support.places import ONE_OF_EACH, kinds, settled

ALL = ("sqlite3", "psycopg", "async asyncpg", "sqlalchemy pymysql", "async session aiomysql", "django mysql")
EARLIER = {
    "postgresql": "interval '{0} ms'",
    "mysql": "INTERVAL {0} * 1000 MICROSECOND",
    "sqlite": "{0}",
}


def let_pass(place, duration):
    """As if all that is marked had been marked so much earlier."""
    amount = EARLIER[place.dialect].format(milliseconds(duration))
    place.sql(f"UPDATE dupeproof_inbox SET seen_at = seen_at - {amount}, expires_at = expires_at - {amount}")


async def take(place, *ids, group="billing", window="1h", together=False):
    async with place.transaction() as connection:
        inbox = place.inbox(group, window=window)
        if together:
            return await settled(inbox.first_many(connection, ids))
        return [await settled(inbox.first(connection, each)) for each in ids]


async def lateness(place, group="billing"):
    async with place.transaction() as connection:
        return await settled(place.inbox(group).lateness(connection))


def purge(place):
    if place.dialect != "mysql":
        store = open_store(place.url)
        gone = store.purge(1_000)
        store.close()
        return gone

    async def own():
        async with place.transaction() as connection:
            return await settled(place.inbox().purge(connection))

    return own()


@kinds(*ALL)
@pytest.mark.parametrize("together", [False, True])
async def test_duplicates_are_counted_by_the_last_time_of_each_message(place, together):
    await place.make_schema()
    await take(place, "a", "b", "c")
    await take(place, "a", group="shipping")
    assert (await lateness(place)).messages == 0
    let_pass(place, "4m")
    assert await take(place, "a", "b", together=together) == [False, False]
    let_pass(place, "16m")
    assert await take(place, "a", "d", together=together) == [False, True]
    found = await lateness(place)
    assert (found.messages, found.duplicates, found.late) == (2, 3, 0)
    assert found.counts[bucket_of(milliseconds("4m"))] == found.counts[bucket_of(milliseconds("20m"))] == 1
    assert milliseconds("20m") <= found.longest < milliseconds("22m")
    assert (await lateness(place, "shipping")).messages == 0


@kinds(*ALL)
@pytest.mark.parametrize("together", [False, True])
async def test_one_after_the_window_is_new_and_counted_as_late(place, together):
    await place.make_schema()
    await take(place, "a", "b", window="1h")
    let_pass(place, "3d")
    assert await take(place, "a", "c", together=together) == [True, True]
    assert await take(place, "a", together=together) == [False]
    let_pass(place, "2h")
    assert await take(place, "a", together=together) == [True]
    found = await lateness(place)
    assert (found.messages, found.duplicates, found.late) == (1, 3, 2)
    assert found.counts[bucket_of(milliseconds("3d"))] == 1
    assert found.suggested == milliseconds("7d")


@kinds(*ALL)
async def test_what_was_counted_outlives_its_messages(place):
    await place.make_schema()
    for turn in range(2):
        await take(place, "a", "b", "c", "d")
        await take(place, "a", "b")
        let_pass(place, "2h")
        assert await take(place, "c") == [True]  # late, so it stays
        before = await lateness(place)
        assert await settled(purge(place)) == 3
        assert await lateness(place) == before
        let_pass(place, "2h")
        assert await settled(purge(place)) == 1
        assert await lateness(place) == before
        assert (before.messages, before.duplicates, before.late) == (3 * turn + 3, 3 * turn + 3, turn + 1)
    assert await settled(purge(place)) == 0


@kinds(*ONE_OF_EACH)
async def test_what_is_rolled_back_was_not_counted(place):
    await place.make_schema()
    await take(place, "a")
    with pytest.raises(ZeroDivisionError):
        async with place.transaction() as connection:
            assert place.inbox().first(connection, "a") is False
            1 // 0
    assert (await lateness(place)).duplicates == 0


@kinds("psycopg", "sqlalchemy pymysql")
async def test_consumers_with_duplicates_of_other_messages_do_not_wait_for_each_other(place):
    """There is nothing that all of them write to."""
    await place.make_schema()
    await take(place, "a", "b")
    done = []

    def other():
        asyncio.run(take(place, "b", "c", "c"))
        done.append(1)

    async with place.transaction() as connection:
        assert place.inbox().first(connection, "a") is False
        thread = threading.Thread(target=other)
        thread.start()
        thread.join(20)
        assert done == [1]


@kinds("psycopg")
async def test_purges_at_once_count_each_message_once(place):
    await place.make_schema()
    ids = [f"m-{n}" for n in range(2_000)]
    for group in ("a", "b", "c"):
        await take(place, *ids, group=group, together=True)
        await take(place, *ids, group=group, together=True)
    let_pass(place, "1d")
    gone = []

    def purging():
        store = open_store(place.url)
        with contextlib.closing(store):
            while count := store.purge(100):
                gone.append(count)

    threads = [threading.Thread(target=purging) for _ in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join(60)
    assert sum(gone) == 6_000
    for group in ("a", "b", "c"):
        assert (await lateness(place, group)).duplicates == 2_000


@kinds(*ONE_OF_EACH)
async def test_the_command_shows_what_came_late_and_suggests_a_window(place, capsys):
    await place.make_schema()
    await take(place, *range(20), window="1h")
    let_pass(place, "4m")
    await take(place, *range(10))
    let_pass(place, "16m")
    await take(place, *range(5))
    let_pass(place, "5h")
    await take(place, 0)

    def command(*words):
        capsys.readouterr()
        assert run(["windows", *words]) == 0
        return capsys.readouterr().out

    facts = msgspec.json.decode(command("get", place.url, "billing", "--json"))
    assert (facts["window"], facts["messages"], facts["duplicates"], facts["late"]) == (None, 10, 16, 1)
    assert (facts["p50"], facts["p99"]) == (600.0, pytest.approx(5 * 3_600 + 1_200, abs=100))
    assert facts["suggested"] == 12 * 3_600
    filled = {each["under"]: each["messages"] for each in facts["histogram"] if each["messages"]}
    assert filled == {600.0: 5, 1_800.0: 4, 21_600.0: 1}
    command("set", place.url, "billing", "12h")
    shown = command("get", place.url, "billing")
    assert "under 30m" in shown
    assert "12h" in shown.splitlines()[0]
    listed = command("list", place.url)
    assert listed.splitlines()[1].split()[:5] == ["billing", "12h", "16", "1", "10m"]
    assert msgspec.json.decode(command("list", place.url, "--json"))["billing"]["window"] == 43_200.0


@kinds(*ALL)
@pytest.mark.parametrize("together", [False, True])
async def test_listeners_hear_of_duplicates_and_of_late_ones(place, together):
    heard = []
    await place.make_schema()

    async def come(*ids):
        async with place.transaction() as connection:
            inbox = place.inbox("billing", window="1h", events=[heard.append])
            if together:
                return await settled(inbox.first_many(connection, ids))
            return [await settled(inbox.first(connection, each)) for each in ids]

    assert await come("a", "b", "a") == [True, True, False]
    let_pass(place, "2h")
    assert await come("a", "c", "a") == [True, True, False]
    counts = Counter()
    for event in heard:
        assert event.namespace == "billing"
        counts[event.kind] += event.count
    assert counts == {"fresh": 4, "seen": 2, "late": 1}
