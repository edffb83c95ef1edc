"""An outbox on each database that can have one, and both flavors of relay behind the same plain calls."""

import asyncio
import sqlite3
from contextlib import contextmanager
from functools import partial

import psycopg
import pytest
from outbox_boxes import CONNECT, Box
from outbox_deliveries import Deliveries

from dupeproof import AsyncRelay, Relay

DATABASES = [
    pytest.param("sqlite", id="sqlite"),
    pytest.param("postgres", marks=pytest.mark.server("postgres"), id="postgres"),
    pytest.param("mariadb", marks=pytest.mark.server("mariadb"), id="mariadb"),
]


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
