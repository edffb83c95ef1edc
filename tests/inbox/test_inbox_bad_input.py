"""What is wrong is said in words that tell what to do, and leaves nothing behind."""

import contextlib
import sqlite3
from uuid import UUID

import psycopg
import pytest

from dupeproof import AsyncInbox, ConfigError, Inbox, KeyInvalid, KeyMissing, StoreUnavailable
from support.places import ONE_OF_EACH, kinds, settled


@kinds(*ONE_OF_EACH)
async def test_a_bad_id_is_refused_and_the_transaction_goes_on(place):
    await place.make_schema()
    inbox = place.inbox()
    async with place.transaction() as connection:
        for bad in (None, "", "  ", b"bytes", 1.5, True, "x" * 5_000, "nul\0", "\ud800", ["a"]):
            with pytest.raises(KeyInvalid):
                inbox.first(connection, bad)
            with pytest.raises(KeyInvalid):
                inbox.first_many(connection, ["good", bad])
        number = UUID(int=7)
        assert inbox.first_many(connection, ["good", 5, number]) == [True, True, True]
        assert inbox.first_many(connection, ["5", str(number)]) == [False, False]


@kinds(*ONE_OF_EACH)
async def test_a_read_only_transaction_is_told(place):
    await place.make_schema()
    read_only = {
        "postgresql": "SET TRANSACTION READ ONLY",
        "mysql": "START TRANSACTION READ ONLY",
        "sqlite": "PRAGMA query_only = on",
    }
    with pytest.raises(StoreUnavailable, match="read-only") as refused:
        async with place.transaction() as connection:
            getattr(connection, "exec_driver_sql", connection.execute)(read_only[place.dialect])
            place.inbox().first(connection, "m-1")
    assert refused.value.refused


@kinds(
    "sqlite3", "psycopg", "async asyncpg", "sqlalchemy pymysql", "async psycopg", "async sqlalchemy aiosqlite"
)
async def test_a_closed_connection_is_told(place):
    await place.make_schema()
    async with place.transaction() as connection:
        pass
    with pytest.raises((ConfigError, StoreUnavailable), match="closed"):
        await settled(place.inbox().first(connection, "m-1"))


@kinds("psycopg", "async asyncpg", "sqlalchemy pymysql")
async def test_a_connection_that_was_lost_is_told(place):
    await place.make_schema()
    ends = {
        "postgresql": "SELECT pg_terminate_backend(pid) FROM pg_stat_activity"
        " WHERE datname = current_database() AND pid <> pg_backend_pid()",
        "mysql": "SELECT id FROM information_schema.processlist WHERE db = database() AND id <> connection_id()",
    }
    inbox, told = place.inbox(), False
    with contextlib.suppress(Exception):
        async with place.transaction() as connection:
            assert await settled(inbox.first(connection, "m-1")) is True
            for (found,) in place.sql(ends[place.dialect]):
                if place.dialect == "mysql":
                    place.sql(f"KILL {found}")
            with pytest.raises(StoreUnavailable, match="closed or was lost") as lost:
                await settled(inbox.first(connection, "m-2"))
            told = True
            raise lost.value
    assert told
    assert place.sql("SELECT count(*) FROM dupeproof_inbox") == [(0,)]


async def test_what_is_no_connection_is_refused_with_a_list_of_those_that_are():
    with pytest.raises(
        ConfigError, match=r"sqlite3\.Connection, psycopg\.Connection, SQLAlchemy.*not of a str"
    ):
        Inbox("billing").first("postgresql://", "m-1")
    with pytest.raises(ConfigError, match=r"asyncpg\.Connection.*use the sync class"):
        await AsyncInbox("billing").first(sqlite3.connect(":memory:"), "m-1")
    with pytest.raises(ConfigError, match="not of a NoneType"):
        Inbox("billing").create_schema(None)


@kinds("psycopg")
async def test_a_transaction_that_has_failed_is_told(place):
    await place.make_schema()
    with pytest.raises(ConfigError, match="roll it back first"):
        async with place.transaction() as connection:
            with contextlib.suppress(psycopg.Error):
                connection.execute("SELECT nothing FROM nowhere")
            place.inbox().first(connection, "m-1")


@kinds("sqlite3", "sqlalchemy pymysql")
async def test_after_an_error_the_transaction_goes_on_where_the_database_lets_it(place):
    place.sql("CREATE TABLE balance (amount integer)")
    async with place.transaction() as connection:
        run = getattr(connection, "exec_driver_sql", connection.execute)
        run("INSERT INTO balance VALUES (5)")
        with pytest.raises(ConfigError, match="create_schema"):
            place.inbox().first(connection, "m-1")
    assert place.sql("SELECT amount FROM balance") == [(5,)]


@pytest.mark.parametrize("group", ["", "a b", None, "x" * 65])
def test_a_bad_group_is_refused(group):
    with pytest.raises(ConfigError):
        Inbox(group)


@pytest.mark.parametrize("window", ["", "soon", 0, -1, None])
def test_a_bad_window_is_refused(window):
    with pytest.raises(ConfigError):
        Inbox("billing", window=window)


@pytest.mark.parametrize(
    ("table", "values", "key", "error"),
    [
        ("payments; DROP TABLE x", {"a": 1}, "a", ConfigError),
        ("payments", {'a"': 1}, 'a"', ConfigError),
        ("payments", {"a": 1}, "b", ConfigError),
        ("payments", {"a": 1}, (), ConfigError),
        ("payments", {"a": None}, "a", KeyMissing),
    ],
)
def test_a_bad_insertion_is_refused(table, values, key, error):
    with contextlib.closing(sqlite3.connect(":memory:")) as connection, pytest.raises(error):
        Inbox("billing").insert_once(connection, table, values, key=key)
