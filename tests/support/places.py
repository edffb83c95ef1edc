"""Every kind of connection an inbox can join, as one table: how to open it, begin, commit and roll back.

`async with place.transaction() as connection` commits at its end and rolls back when it is left by an error, also on
connections that are not async; `place.alone()` gives a connection on which every statement would commit by itself.
"""

import contextlib
import inspect
import os
import sqlite3
from dataclasses import dataclass, field
from functools import partial
from typing import Any

import asyncpg
import psycopg
import pymysql
import pytest
import sqlalchemy
from sqlalchemy.ext.asyncio import AsyncSession, create_async_engine
from sqlalchemy.orm import Session
from sqlalchemy.pool import NullPool

from dupeproof import AsyncInbox, Inbox

os.environ["DJANGO_ALLOW_ASYNC_UNSAFE"] = "1"  # the tests are coroutines, whatever the connection is


async def settled(value):
    return await value if inspect.isawaitable(value) else value


@contextlib.asynccontextmanager
async def either(manager):
    """Enter it, whichever kind it is."""
    if hasattr(manager, "__aenter__"):
        async with manager as value:
            yield value
    else:
        with manager as value:
            yield value


def sqlite_path(url):
    return url.removeprefix("sqlite:///")


@contextlib.contextmanager
def sqlite3_transaction(url, **options):
    with (
        contextlib.closing(sqlite3.connect(sqlite_path(url), timeout=20, **options)) as connection,
        connection,
    ):
        if connection.isolation_level is None:
            connection.execute("BEGIN")
        yield connection


def sqlite3_alone(url):
    return contextlib.closing(sqlite3.connect(sqlite_path(url), isolation_level=None))


@contextlib.contextmanager
def psycopg_autocommit(url):
    with psycopg.connect(url, autocommit=True) as connection, connection.transaction():
        yield connection


@contextlib.asynccontextmanager
async def async_psycopg_transaction(url):
    async with await psycopg.AsyncConnection.connect(url) as connection:
        yield connection


@contextlib.asynccontextmanager
async def async_psycopg_alone(url):
    async with await psycopg.AsyncConnection.connect(url, autocommit=True) as connection:
        yield connection


@contextlib.asynccontextmanager
async def asyncpg_alone(url):
    connection = await asyncpg.connect(url)
    try:
        yield connection
    finally:
        await connection.close()


@contextlib.asynccontextmanager
async def asyncpg_transaction(url):
    async with asyncpg_alone(url) as connection, connection.transaction():
        yield connection


@contextlib.asynccontextmanager
async def asyncpg_pooled(url):
    async with (
        asyncpg.create_pool(url, min_size=1) as pool,
        pool.acquire() as connection,
        connection.transaction(),
    ):
        yield connection


def engine_url(url, driver):
    scheme, _, rest = url.partition("://")
    return f"{scheme}+{driver}://{rest}"


@contextlib.contextmanager
def engine_transaction(url, driver, **options):
    engine = sqlalchemy.create_engine(engine_url(url, driver), poolclass=NullPool, **options)
    with engine.begin() as connection:
        yield connection


@contextlib.contextmanager
def engine_alone(url, driver):
    engine = sqlalchemy.create_engine(
        engine_url(url, driver), poolclass=NullPool, isolation_level="AUTOCOMMIT"
    )
    with engine.connect() as connection:
        yield connection


@contextlib.contextmanager
def session_transaction(url, driver):
    engine = sqlalchemy.create_engine(engine_url(url, driver), poolclass=NullPool)
    with Session(engine) as session, session.begin():
        yield session


@contextlib.asynccontextmanager
async def async_engine_transaction(url, driver):
    engine = create_async_engine(engine_url(url, driver), poolclass=NullPool)
    async with engine.begin() as connection:
        yield connection


@contextlib.asynccontextmanager
async def async_engine_alone(url, driver):
    engine = create_async_engine(engine_url(url, driver), poolclass=NullPool)
    async with engine.connect() as connection:
        yield await connection.execution_options(isolation_level="AUTOCOMMIT")


@contextlib.asynccontextmanager
async def async_session_transaction(url, driver):
    engine = create_async_engine(engine_url(url, driver), poolclass=NullPool)
    async with AsyncSession(engine) as session, session.begin():
        yield session


_BACKENDS = {"postgresql": "postgresql", "sqlite": "sqlite3", "mysql": "mysql"}


def django_set_up():
    """Once in a process. PyMySQL stands in for mysqlclient, which would have to be compiled."""
    import django
    from django.conf import settings

    if not settings.configured:
        pymysql.version_info = (2, 2, 1, "final", 0)
        pymysql.install_as_MySQLdb()
        settings.configure(DATABASES={"default": {"ENGINE": "django.db.backends.sqlite3"}})
        django.setup()


@contextlib.contextmanager
def django_alone(url):
    django_set_up()
    from django.db import connection, connections

    there = sqlalchemy.engine.make_url(url)
    defaults = connections.databases["default"]
    connections.databases["default"] = {
        **defaults,
        "ENGINE": f"django.db.backends.{_BACKENDS[there.drivername]}",
        "NAME": there.database,
        "USER": there.username or "",
        "PASSWORD": there.password or "",
        "HOST": there.host or "",
        "PORT": there.port or "",
    }
    try:
        yield connection
    finally:
        connection.close()
        del connections["default"]
        connections.databases["default"] = defaults


@contextlib.contextmanager
def django_transaction(url):
    django_set_up()
    from django.db import transaction

    with django_alone(url) as connection, transaction.atomic():
        yield connection


@dataclass
class Place:
    """A database of the test's own, and one way to be connected to it."""

    name: str
    url: str
    _transaction: Any
    _alone: Any = None
    is_async: bool = False
    options: dict = field(default_factory=dict)

    @property
    def dialect(self):
        return self.url.partition(":")[0]

    def inbox(self, group="billing", **options):
        return (AsyncInbox if self.is_async else Inbox)(group, **options)

    def transaction(self):
        return either(self._transaction(self.url))

    def alone(self):
        return either(self._alone(self.url))

    async def make_schema(self):
        async with self.transaction() as connection:
            await settled(self.inbox().create_schema(connection))

    def sql(self, *statements):
        """Run these on a connection of its own, and commit; what the last one gives."""
        with engine_transaction(self.url, DRIVERS[self.dialect]) as connection:
            for statement in statements:
                result = connection.exec_driver_sql(statement)
            return [tuple(row) for row in result] if result.returns_rows else []


DRIVERS = {"postgresql": "psycopg", "mysql": "pymysql", "sqlite": "pysqlite"}
SERVERS = {"postgresql": "postgres", "mysql": "mariadb", "sqlite": None}

KINDS = {
    "sqlite3": ("sqlite", sqlite3_transaction, sqlite3_alone),
    "sqlite3 with BEGIN": ("sqlite", partial(sqlite3_transaction, isolation_level=None), sqlite3_alone),
    "psycopg": ("postgresql", psycopg.connect, partial(psycopg.connect, autocommit=True)),
    "psycopg autocommit": ("postgresql", psycopg_autocommit, partial(psycopg.connect, autocommit=True)),
    "async psycopg": ("postgresql", async_psycopg_transaction, async_psycopg_alone),
    "async asyncpg": ("postgresql", asyncpg_transaction, asyncpg_alone),
    "async asyncpg pool": ("postgresql", asyncpg_pooled, asyncpg_alone),
}
for _dialect, _driver, _async_drivers in (
    ("postgresql", "psycopg", ("psycopg", "asyncpg")),
    ("mysql", "pymysql", ("aiomysql",)),
    ("sqlite", "pysqlite", ("aiosqlite",)),
):
    _alone = partial(engine_alone, driver=_driver)
    KINDS[f"sqlalchemy {_driver}"] = _dialect, partial(engine_transaction, driver=_driver), _alone
    KINDS[f"session {_driver}"] = _dialect, partial(session_transaction, driver=_driver), _alone
    KINDS[f"django {_dialect}"] = _dialect, django_transaction, django_alone
    for _name in _async_drivers:
        _alone = partial(async_engine_alone, driver=_name)
        KINDS[f"async sqlalchemy {_name}"] = (
            _dialect,
            partial(async_engine_transaction, driver=_name),
            _alone,
        )
        KINDS[f"async session {_name}"] = _dialect, partial(async_session_transaction, driver=_name), _alone

ONE_OF_EACH = ("sqlite3", "psycopg", "sqlalchemy pymysql")


def kinds(*names):
    """Run a test on these kinds of connection; on all of them when none is named."""
    params = []
    for name in names or KINDS:
        server = SERVERS[KINDS[name][0]]
        params.append(pytest.param(name, marks=pytest.mark.server(server) if server else ()))
    return pytest.mark.parametrize("place", params, indirect=True)


def place_of(name, request):
    dialect, transaction, alone = KINDS[name]
    if dialect == "sqlite":
        url = f"sqlite:///{request.getfixturevalue('tmp_path')}/own.db"
    else:
        url = request.getfixturevalue(f"{SERVERS[dialect]}_module_url")
    place = Place(name, url, transaction, alone, is_async=name.startswith("async"))
    if dialect != "sqlite":
        drop_tables(place)
    return place


def drop_tables(place):
    """A database costs half a second to make; its tables, milliseconds."""
    if place.dialect == "postgresql":
        place.sql("DROP SCHEMA public CASCADE", "CREATE SCHEMA public")
    else:
        for (table,) in place.sql("SHOW TABLES"):
            place.sql(f"DROP TABLE {table}")
