"""An inbox that opens the transaction itself, from a URL, an engine or a pool."""

import asyncpg
import psycopg_pool
import pytest
import sqlalchemy
from sqlalchemy.ext.asyncio import async_sessionmaker, create_async_engine
from sqlalchemy.orm import sessionmaker
from sqlalchemy.pool import NullPool

from dupeproof import AsyncInbox, ConfigError, Inbox, StoreUnavailable
from support.places import engine_url, kinds


def engine(url):
    driver = {"postgresql": "psycopg", "sqlite": "pysqlite"}[url.partition(":")[0]]
    return sqlalchemy.create_engine(engine_url(url, driver), poolclass=NullPool)


def async_engine(url):
    driver = {"postgresql": "asyncpg", "sqlite": "aiosqlite"}[url.partition(":")[0]]
    return create_async_engine(engine_url(url, driver), poolclass=NullPool)


@kinds("sqlite3", "psycopg")
@pytest.mark.parametrize(
    "given",
    [str, lambda url: f"{url}?timeout=3s", engine, lambda url: sessionmaker(engine(url))],
    ids=["url", "url of a store", "engine", "maker"],
)
async def test_its_transaction_commits_at_its_end_and_rolls_back_on_an_error(place, given):
    await place.make_schema()
    inbox = Inbox("billing", database=given(place.url))
    with pytest.raises(ZeroDivisionError), inbox.transaction() as connection:
        assert inbox.first(connection, "m-1") is True
        1 // 0
    with inbox.transaction() as connection:
        assert inbox.first(connection, "m-1") is True
    with inbox.transaction() as connection:
        assert inbox.first(connection, "m-1") is False


@kinds("sqlalchemy pymysql")
@pytest.mark.parametrize("scheme", ["mysql", "mariadb", "mysql+pymysql", "mariadb+pymysql"])
async def test_a_url_of_mariadb_will_do(place, scheme):
    await place.make_schema()
    url = place.url.replace("mysql", scheme, 1)
    inbox = Inbox("billing", database=url)
    with pytest.raises(ZeroDivisionError), inbox.transaction() as connection:
        assert inbox.first(connection, "m-1") is True
        1 // 0
    for expected in (True, False):
        with inbox.transaction() as connection:
            assert inbox.first(connection, "m-1") is expected
    inbox = AsyncInbox("billing", database=url)
    for expected in (True, False):
        async with inbox.transaction() as connection:
            assert await inbox.first(connection, "m-2") is expected


@pytest.mark.parametrize("url", ["postgresql://u:secret@127.0.0.1:1/x", "mysql://u:secret@127.0.0.1:1/x"])
async def test_a_database_that_is_down_is_told_without_the_password(url):
    with (
        pytest.raises(StoreUnavailable, match="cannot be reached") as down,
        Inbox("b", database=url).transaction(),
    ):
        pass
    assert "secret" not in str(down.value)
    with pytest.raises(StoreUnavailable, match="cannot be reached") as down:
        async with AsyncInbox("b", database=url).transaction():
            pass
    assert "secret" not in str(down.value)


@kinds("async psycopg")
@pytest.mark.parametrize("kind", ["url", "engine", "maker", "psycopg pool", "asyncpg pool"])
async def test_so_does_that_of_the_async_one(place, kind):
    await place.make_schema()
    given = {
        "url": lambda: place.url,
        "engine": lambda: async_engine(place.url),
        "maker": lambda: async_sessionmaker(async_engine(place.url)),
        "psycopg pool": lambda: psycopg_pool.AsyncConnectionPool(place.url, min_size=1, open=False),
        "asyncpg pool": lambda: asyncpg.create_pool(place.url, min_size=1),
    }[kind]()
    if kind == "psycopg pool":
        await given.open()
    if kind == "asyncpg pool":
        await given
    try:
        inbox = AsyncInbox("billing", database=given)
        with pytest.raises(ZeroDivisionError):
            async with inbox.transaction() as connection:
                assert await inbox.first(connection, "m-1") is True
                1 // 0
        async with inbox.transaction() as connection:
            assert await inbox.first(connection, "m-1") is True
        async with inbox.transaction() as connection:
            assert await inbox.first(connection, "m-1") is False
    finally:
        if "pool" in kind:
            await given.close()


@kinds("psycopg")
async def test_a_pool_of_psycopg_will_do(place):
    await place.make_schema()
    with psycopg_pool.ConnectionPool(place.url, min_size=1, open=True) as pool:
        inbox = Inbox("billing", database=pool)
        for expected in (True, False):
            with inbox.transaction() as connection:
                assert inbox.first(connection, "m-1") is expected


@pytest.mark.parametrize(
    "bad", ["redis://localhost", "oracle://secret@localhost/x", "nonsense", "sqlite://", 5]
)
def test_what_is_no_database_is_refused(bad):
    for kind in (Inbox, AsyncInbox):
        with pytest.raises(ConfigError, match="database= takes") as refused:
            kind("billing", database=bad)
        assert "secret" not in str(refused.value)


def test_without_one_it_opens_none():
    for kind in (Inbox, AsyncInbox):
        with pytest.raises(ConfigError, match="give it database="):
            kind("billing").transaction()
