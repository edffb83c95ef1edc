"""The table of what may be given for a database, gone through: each cell is tried, and a dash is a clear refusal."""

import asyncio
import contextlib
import re
from pathlib import Path

import asyncpg
import psycopg_pool
import pytest
import sqlalchemy
from django.db import connections
from sqlalchemy.ext.asyncio import async_sessionmaker, create_async_engine
from sqlalchemy.orm import sessionmaker
from sqlalchemy.pool import NullPool

import dupeproof
from dupeproof import ConfigError, Outbox
from dupeproof.cleanup import AsyncPurger, Purger
from support.places import django_alone, either, place_of, settled

PAGE = Path(__file__).parents[2] / "docs" / "reference" / "databases.md"
SERVERS = {"postgresql": "postgres", "mysql": "mariadb", "sqlite": None}


def with_driver(scheme):
    return lambda url: f"{scheme}://{url.partition('://')[2]}"


def engine(driver):
    return lambda url: sqlalchemy.create_engine(with_driver(driver)(url), poolclass=NullPool)


def async_engine(driver):
    return lambda url: create_async_engine(with_driver(driver)(url), poolclass=NullPool)


def django(url):
    return "django:default"


GIVEN = {
    "`Engine`, PostgreSQL": ("postgresql", engine("postgresql+psycopg")),
    "`Engine`, MariaDB": ("mysql", engine("mysql+pymysql")),
    "`Engine`, SQLite": ("sqlite", engine("sqlite")),
    "`AsyncEngine`, psycopg": ("postgresql", async_engine("postgresql+psycopg")),
    "`AsyncEngine`, asyncpg": ("postgresql", async_engine("postgresql+asyncpg")),
    "`AsyncEngine`, MariaDB": ("mysql", async_engine("mysql+aiomysql")),
    "`sessionmaker`": ("postgresql", lambda url: sessionmaker(engine("postgresql+psycopg")(url))),
    "`async_sessionmaker`": (
        "postgresql",
        lambda url: async_sessionmaker(async_engine("postgresql+asyncpg")(url)),
    ),
    "`psycopg_pool.ConnectionPool`": (
        "postgresql",
        lambda url: psycopg_pool.ConnectionPool(url, min_size=1, open=True),
    ),
    "`psycopg_pool.AsyncConnectionPool`": (
        "postgresql",
        lambda url: psycopg_pool.AsyncConnectionPool(url, min_size=1, open=False),
    ),
    "`asyncpg.Pool`": ("postgresql", lambda url: asyncpg.create_pool(url, min_size=1)),
    '`"django:default"`, PostgreSQL': ("postgresql", django),
    '`"django:default"`, SQLite': ("sqlite", django),
}
URL = re.compile(r"`(\w+(?:\+\w+)?)://")


def of_row(given):
    """The dialect, and what makes the thing of a plain URL."""
    if found := URL.match(given):
        dialect = found[1].partition("+")[0].replace("mariadb", "mysql")
        return dialect, with_driver(found[1])
    return GIVEN[given]


def rows():
    lines = [
        [cell.strip() for cell in line.strip("| \n").split(" | ")]
        for line in PAGE.read_text().splitlines()
        if line.startswith("| ")
    ]
    (_, *classes), *rows = lines
    names = [name.strip("`") for name in classes]
    assert names == list(USES)
    for given, *found in rows:
        server = SERVERS[of_row(given)[0]]
        marks = pytest.mark.server(server) if server else ()
        yield pytest.param(given, dict(zip(names, found, strict=True)), marks=marks, id=given)


@pytest.fixture
def place(given, request):
    kind = {"postgresql": "psycopg", "mysql": "sqlalchemy pymysql", "sqlite": "sqlite3"}[of_row(given)[0]]
    place = place_of(kind, request)
    asyncio.run(place.make_schema())
    with place._transaction(place.url) as connection:
        Outbox().create_schema(connection)
    with django_alone(place.url) if "django" in given else contextlib.nullcontext():
        yield place


async def opened(thing):
    if isinstance(thing, psycopg_pool.AsyncConnectionPool):
        await thing.open()
    if isinstance(thing, asyncpg.Pool):
        await thing
    return thing


async def closed(thing):
    if not isinstance(thing, str) and hasattr(thing, "close"):
        await settled(thing.close())


async def use_inbox(kind, thing):
    inbox = kind(kind.__name__, database=thing)
    for expected in (True, False):
        async with either(inbox.transaction()) as connection:
            assert await settled(inbox.first(connection, "m-1")) is expected
            assert (await settled(inbox.newer(connection, entity="e", version=1, id="m-1"))).first is expected
    await settled(inbox.close())
    owner = {"sqlite3": "sqlite3", "django": "Django", "sqlalchemy": "SQLAlchemy"}
    library = type(connection).__module__.partition(".")[0]
    if isinstance(connection, __import__("sqlite3").Connection):
        return "sqlite3's `Connection`"
    if "Connection" in type(connection).__name__ and library in ("psycopg", "dupeproof"):
        return f"psycopg's `{type(connection).__mro__[1].__name__ if library == 'dupeproof' else type(connection).__name__}`"
    return f"{owner.get(library, library)}'s `{type(connection).__name__}`"


async def use_once(kind, thing):
    once = kind(thing, namespace=kind.__name__)
    for expected in (False, True):
        assert await settled(once.seen("m-1")) is expected

    def work():
        return 7

    async def work_async():
        return 7

    asked = work_async if kind is dupeproof.AsyncOnce else work
    assert [await settled(once.run("k-1", asked)) for _ in range(2)] == [7, 7]
    await settled(once.close())
    return "yes"


async def use_purger(kind, thing):
    purger = kind(thing)
    assert (await settled(purger.run_once())).removed == 0
    await settled(purger.stop())
    return "yes"


async def use_relay(kind, thing):
    sent = []

    async def publish(message):
        sent.append(message.json())

    relay = kind(
        thing, publisher=publish if kind is dupeproof.AsyncRelay else lambda each: sent.append(each.json())
    )
    await settled(relay.run_once())
    await settled(relay.close()) if hasattr(relay, "close") else None
    assert sent == [{"order": 1}]
    return "yes"


USES = {
    "Inbox": (dupeproof.Inbox, use_inbox),
    "AsyncInbox": (dupeproof.AsyncInbox, use_inbox),
    "Once": (dupeproof.Once, use_once),
    "AsyncOnce": (dupeproof.AsyncOnce, use_once),
    "Purger": (Purger, use_purger),
    "AsyncPurger": (AsyncPurger, use_purger),
    "Relay": (dupeproof.Relay, use_relay),
    "AsyncRelay": (dupeproof.AsyncRelay, use_relay),
}


@pytest.mark.parametrize(("given", "expected"), list(rows()))
def test_a_row_of_the_table(given, expected, place):
    async def check(name):
        kind, use = USES[name]
        thing = await opened(of_row(given)[1](place.url))
        try:
            if expected[name] == "–":
                with pytest.raises(ConfigError):
                    await use(kind, thing)
            else:
                assert await use(kind, thing) == expected[name], name
        finally:
            await closed(thing)
            if "django" in given:
                connections.close_all()

    for name in USES:
        if "Relay" in name:
            with place._transaction(place.url) as connection:
                Outbox().add(connection, topic="orders", payload={"order": 1})
        asyncio.run(check(name))
        if expected[name] == "–" and "Relay" in name:
            place.sql("DELETE FROM dupeproof_outbox")


@pytest.mark.parametrize(
    "url", ["mssql+pyodbc://u:secret@h/d", "oracle://u:secret@h/d", "postgresql+nonsense://u:secret@h/d"]
)
@pytest.mark.parametrize("name", list(USES))
def test_what_cannot_be_served_is_said_without_the_password(url, name):
    kind, use = USES[name]
    with pytest.raises(ConfigError) as refused:
        asyncio.run(use(kind, url))
    assert "secret" not in str(refused.value)
