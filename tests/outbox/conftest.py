"""An outbox on each database that can have one, and both flavors of relay behind the same plain calls."""

import asyncio
import sqlite3
from contextlib import contextmanager

import psycopg
import pytest
from outbox_deliveries import Deliveries

from dupeproof import AsyncRelay, Outbox, Relay

DATABASES = [
    pytest.param("sqlite", id="sqlite"),
    pytest.param("postgres", marks=pytest.mark.server("postgres"), id="postgres"),
]
_EMPTY = """
    TRUNCATE dupeproof_outbox, dupeproof_outbox_failing, dupeproof_outbox_dead, dupeproof_outbox_sent;
    UPDATE dupeproof_outbox_lanes SET token = NULL, lease_until = '-infinity', sent = 0, taken_over = 0
"""


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
        rows = self.connection.execute(statement).fetchall()
        self.connection.commit()
        return rows

    def waiting(self):
        return self.all("SELECT count(*) FROM dupeproof_outbox")[0][0]


@pytest.fixture(params=DATABASES)
def box(request, tmp_path):
    if request.param == "sqlite":
        url = f"sqlite:///{tmp_path}/shop.db?synchronous=normal"
        made = Box(url, lambda: sqlite3.connect(tmp_path / "shop.db"))
    else:
        url = request.getfixturevalue("postgres_module_url")
        made = Box(url, lambda: psycopg.connect(url))
        made.connection.execute(_EMPTY)
        made.connection.commit()
    yield made
    made.connection.close()


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
