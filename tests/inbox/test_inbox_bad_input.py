"""What is wrong is said in words that tell what to do, and leaves nothing behind."""

import contextlib
import sqlite3
import traceback
from uuid import UUID

import pytest

from dupeproof import AsyncInbox, ConfigError, Inbox, KeyInvalid, KeyMissing, StoreUnavailable
from support.places import KINDS, ONE_OF_EACH, kinds, run_on, settled


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


READ_ONLY = {
    "postgresql": "SET TRANSACTION READ ONLY",
    "mysql": "START TRANSACTION READ ONLY",
    "sqlite": "PRAGMA query_only = on",
}


@kinds()
async def test_a_read_only_transaction_is_told(place):
    await place.make_schema()
    with pytest.raises(StoreUnavailable, match="read-only") as refused:
        async with place.transaction() as connection:
            await run_on(connection, READ_ONLY[place.dialect])
            await settled(place.inbox().first(connection, "m-1"))
    assert refused.value.refused
    assert place.sql("SELECT count(*) FROM dupeproof_inbox") == [(0,)]


@kinds()
async def test_a_closed_connection_is_told(place):
    """A session opens again by itself, in a transaction that nobody has committed."""
    await place.make_schema()
    if "django" in place.name:
        with pytest.raises((ConfigError, StoreUnavailable), match=r"closed|roll it back"):
            async with place.transaction() as connection:
                connection.close()
                place.inbox().first(connection, "m-1")
        return
    async with place.transaction() as connection:
        pass
    if "session" in place.name:
        assert await settled(place.inbox().first(connection, "m-1")) is True
        await settled(connection.close())
    else:
        with pytest.raises((ConfigError, StoreUnavailable), match="closed"):
            await settled(place.inbox().first(connection, "m-1"))
    assert place.sql("SELECT count(*) FROM dupeproof_inbox") == [(0,)]


@kinds(*(name for name, (dialect, *_) in KINDS.items() if dialect != "sqlite"))
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
        ConfigError,
        match=r"sqlite3\.Connection, psycopg\.Connection, pymysql\.Connection, SQLAlchemy.*not of a str",
    ):
        Inbox("billing").first("postgresql://", "m-1")
    with pytest.raises(ConfigError, match=r"asyncpg\.Connection.*use the sync class"):
        await AsyncInbox("billing").first(sqlite3.connect(":memory:"), "m-1")
    with pytest.raises(ConfigError, match="not of a NoneType"):
        Inbox("billing").create_schema(None)


@pytest.mark.parametrize(
    "database",
    [
        "postgresql://app:my secret@127.0.0.1:1/shop",
        "postgresql://app:secret%zz@127.0.0.1:1/shop",
        "host=127.0.0.1 port=1 password=secret",
    ],
)
async def test_a_database_nobody_can_read_is_refused_without_its_password(database):
    with (
        pytest.raises(ConfigError, match="database=") as refused,
        Inbox("billing", database=database).transaction(),
    ):
        pytest.fail("there is none")
    with pytest.raises(ConfigError, match="database=") as too:
        async with AsyncInbox("billing", database=database).transaction():
            pytest.fail("there is none")
    told = "".join(line for each in (refused, too) for line in traceback.format_exception(each.value))
    assert "secret" not in told


@kinds(*(name for name, (dialect, *_) in KINDS.items() if dialect == "postgresql"))
async def test_a_transaction_that_has_failed_is_told(place):
    await place.make_schema()
    with pytest.raises(ConfigError, match="roll it back first"):
        async with place.transaction() as connection:
            with pytest.raises(Exception, match="nowhere"):
                await run_on(connection, "SELECT nothing FROM nowhere")
            await settled(place.inbox().first(connection, "m-1"))


@kinds(*(name for name in KINDS if name.startswith("django")))
async def test_so_is_one_that_django_has_given_up(place):
    await place.make_schema()
    with pytest.raises(ConfigError, match="roll it back first"):
        async with place.transaction() as connection:
            connection.needs_rollback = True
            place.inbox().first(connection, "m-1")


@kinds()
async def test_after_an_error_the_transaction_goes_on(place):
    """On PostgreSQL from a savepoint: there an error ends the whole transaction, whoever made it."""
    place.sql("CREATE TABLE balance (amount integer)")
    aside = place.dialect == "postgresql"
    async with place.transaction() as connection:
        await run_on(connection, "INSERT INTO balance VALUES (5)")
        if aside:
            await run_on(connection, "SAVEPOINT ours")
        with pytest.raises(ConfigError, match="dupeproof schema URL --apply"):
            await settled(place.inbox().first(connection, "m-1"))
        if aside:
            await run_on(connection, "ROLLBACK TO SAVEPOINT ours")
        await run_on(connection, "INSERT INTO balance VALUES (7)")
    assert place.sql("SELECT amount FROM balance ORDER BY amount") == [(5,), (7,)]


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
