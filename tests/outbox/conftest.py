"""An outbox on each database that can have one, and both flavors of relay behind the same plain calls."""

import asyncio
import contextlib
import sqlite3
from contextlib import contextmanager
from functools import partial

import psycopg
import pymysql
import pytest
import sqlalchemy
from outbox_deliveries import Deliveries

from dupeproof import AsyncRelay, Outbox, Relay

DATABASES = [
    pytest.param("sqlite", id="sqlite"),
    pytest.param("postgres", marks=pytest.mark.server("postgres"), id="postgres"),
    pytest.param("mariadb", marks=pytest.mark.server("mariadb"), id="mariadb"),
]
TABLES = [f"dupeproof_outbox{part}" for part in ("", "_lanes", "_failing", "_dead", "_sent")]


class Box:
    """A database with an outbox in it, and a connection of the application's."""

    def __init__(self, url, connect):
        self.url = url
        self.connect = connect
        self.connection = connect()
        self.outbox = Outbox()
        self.outbox.create_schema(self.connection)
        self.connection.commit()

    def add(self, *payloads, **options):
        ids = [self.outbox.add(self.connection, topic="orders", payload=each, **options) for each in payloads]
        self.connection.commit()
        return ids

    def all(self, statement):
        rows = self.execute(statement)
        self.connection.commit()
        return rows

    def execute(self, statement):
        """DB-API alone, which all of them have."""
        with contextlib.closing(self.connection.cursor()) as cursor:
            cursor.execute(statement)
            return [tuple(row) for row in cursor.fetchall()] if cursor.description else []

    def empty(self):
        for table in TABLES:
            self.execute(f"DELETE FROM {table}")
        self.connection.commit()

    def waiting(self):
        return self.all("SELECT count(*) FROM dupeproof_outbox")[0][0]


@pytest.fixture(params=DATABASES)
def box(request, tmp_path):
    if request.param == "sqlite":
        made = Box(
            f"sqlite:///{tmp_path}/shop.db?synchronous=normal", lambda: sqlite3.connect(tmp_path / "shop.db")
        )
    else:
        url = request.getfixturevalue(f"{request.param}_module_url")
        made = Box(url, partial(CONNECT[request.param], url))
        made.empty()
    yield made
    made.connection.close()


def connect_to_mariadb(url):
    there = sqlalchemy.engine.make_url(url)
    return pymysql.connect(
        host=there.host,
        port=there.port,
        user=there.username,
        password=there.password or "",
        database=there.database,
        charset="utf8mb4",
    )


CONNECT = {"postgres": psycopg.connect, "mariadb": connect_to_mariadb}


@pytest.fixture(params=["sync", "async"])
def relay(request):
    """`with relay(url, publisher=…) as running`: run_once and status of either flavor, and its source."""

    @contextmanager
    def opened(url, **options):
        if request.param == "sync":
            with Relay(url, **options) as made:
                yield made
            return
        with asyncio.Runner() as runner:
            yield Driven(AsyncRelay(url, **options), runner)

    return opened


class Driven:
    def __init__(self, relay, runner):
        self._relay = relay
        self._runner = runner

    def run_once(self):
        async def once():
            try:
                return await self._relay.run_once()
            finally:
                await self._relay.close()

        return self._runner.run(once())

    def status(self):
        async def look():
            try:
                return await self._relay.status()
            finally:
                await self._relay.close()

        return self._runner.run(look())


@pytest.fixture
def box_on_postgres(postgres_url):
    made = Box(postgres_url, lambda: psycopg.connect(postgres_url))
    yield made
    made.connection.close()


@pytest.fixture
def deliveries(tmp_path):
    made = Deliveries(tmp_path)
    yield made
    made.close()
