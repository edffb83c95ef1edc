"""The mark shares the fate of the caller's transaction, on every kind of connection."""

import pytest

from dupeproof import ConfigError
from support.places import kinds, settled


class Failed(Exception):
    """The handler's own."""


@kinds()
async def test_a_mark_is_kept_if_and_only_if_the_work_is(place):
    await place.make_schema()
    await place.make_schema()
    inbox, other = place.inbox(), place.inbox("shipping")
    with pytest.raises(Failed):
        async with place.transaction() as connection:
            assert await settled(inbox.first(connection, "m-1")) is True
            assert await settled(inbox.first(connection, "m-1")) is False
            raise Failed
    async with place.transaction() as connection:
        assert await settled(inbox.first(connection, "m-1")) is True
        assert await settled(other.first(connection, "m-1")) is True
    async with place.transaction() as connection:
        assert await settled(inbox.first(connection, "m-1")) is False
        assert await settled(inbox.first(connection, "M-1")) is True
    assert place.sql("SELECT count(*) FROM dupeproof_inbox") == [(3,)]


@kinds()
async def test_a_batch_tells_exactly_which_are_new(place):
    await place.make_schema()
    inbox = place.inbox()
    async with place.transaction() as connection:
        assert await settled(inbox.first_many(connection, ["a", "b", "a"])) == [True, True, False]
        assert await settled(inbox.first_many(connection, [])) == []
    async with place.transaction() as connection:
        assert await settled(inbox.first_many(connection, ["c", "b", 5, "5", "c"])) == [1, 0, 1, 0, 0]
    odd = ["ü" * 1_000, "a'b\"c%s%(x)s:y?$1\\", "\n x", "0", "-", "a,b"]
    async with place.transaction() as connection:
        assert await settled(inbox.first_many(connection, odd)) == [True] * len(odd)
    async with place.transaction() as connection:
        assert await settled(inbox.first_many(connection, odd)) == [False] * len(odd)
        assert await settled(inbox.first(connection, odd[1])) is False


@kinds("sqlite3", "psycopg", "async asyncpg", "sqlalchemy pymysql", "async session aiomysql")
async def test_a_large_batch_is_one_statement_and_a_larger_one_is_refused(place):
    await place.make_schema()
    inbox = place.inbox()
    ids = [f"m-{n}" for n in range(10_000)]
    async with place.transaction() as connection:
        assert await settled(inbox.first_many(connection, ids)) == [True] * len(ids)
        assert await settled(inbox.first_many(connection, [*ids[1:], "new"])) == [False] * 9_999 + [True]
        with pytest.raises(ConfigError, match="at most 10,000"):
            await settled(inbox.first_many(connection, [*ids, "one more"]))


@kinds()
async def test_a_row_of_ones_own_is_inserted_once(place):
    place.sql(
        "CREATE TABLE payments (id integer PRIMARY KEY, shop varchar(20), number integer, amount integer,"
        " UNIQUE (shop, number))"
    )
    inbox = place.inbox()

    async def insert(connection, row_id, number, amount):
        row = {"id": row_id, "shop": "north", "number": number, "amount": amount}
        return await settled(inbox.insert_once(connection, "payments", row, key=("shop", "number")))

    async with place.transaction() as connection:
        assert await insert(connection, 1, 7, 500) is True
        assert await insert(connection, 2, 7, 900) is False
    async with place.transaction() as connection:
        assert await insert(connection, 3, 7, 900) is False
        assert await insert(connection, 4, 8, None) is True
    rows = place.sql("SELECT id, number, amount FROM payments ORDER BY id")
    assert rows == [(1, 7, 500), (4, 8, None)]
    with pytest.raises(
        Exception, match=r"(?i)duplicate|unique"
    ):  # of the primary key, which is not the one asked about
        async with place.transaction() as connection:
            await insert(connection, 1, 9, 1)


@kinds()
async def test_without_a_transaction_it_refuses_and_says_what_to_do(place):
    await place.make_schema()
    inbox = place.inbox()
    async with place.alone() as connection:
        for call in (
            lambda: inbox.first(connection, "m-1"),
            lambda: inbox.first_many(connection, ["m-1"]),
            lambda: inbox.insert_once(connection, "anything", {"a": 1}, key="a"),
        ):
            with pytest.raises(
                ConfigError, match=r"BEGIN IMMEDIATE|transaction\(\): …|engine\.begin|atomic\(\)"
            ):
                await settled(call())
    assert place.sql("SELECT count(*) FROM dupeproof_inbox") == [(0,)]


@kinds()
async def test_a_missing_table_says_how_it_is_made(place):
    with pytest.raises(ConfigError, match=r"dupeproof schema URL --apply.*create_schema"):
        async with place.transaction() as connection:
            await settled(place.inbox().first(connection, "m-1"))


@kinds()
async def test_the_schema_can_be_made_without_a_transaction_too(place):
    async with place.alone() as connection:
        await settled(place.inbox().create_schema(connection))
    assert place.sql("SELECT count(*) FROM dupeproof_inbox") == [(0,)]


@kinds("sqlite3", "psycopg", "async asyncpg", "sqlalchemy pymysql")
async def test_an_expired_mark_is_taken_over_in_the_same_step(place):
    await place.make_schema()
    inbox = place.inbox()
    async with place.transaction() as connection:
        assert await settled(inbox.first_many(connection, ["a", "b"])) == [True, True]
    place.sql("UPDATE dupeproof_inbox SET expires_at = seen_at")
    async with place.transaction() as connection:
        assert await settled(inbox.first(connection, "a")) is True
        assert await settled(inbox.first(connection, "a")) is False
        assert await settled(inbox.first_many(connection, ["a", "b", "c"])) == [False, True, True]
