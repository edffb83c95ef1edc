"""Stores over a pool or an engine of the caller's pass the suite we ship, as those we open do."""

import psycopg_pool
import pytest
import sqlalchemy
from psycopg.rows import dict_row
from sqlalchemy.ext.asyncio import create_async_engine

from dupeproof.stores import open_async_store, open_store
from dupeproof.testing.conformance import (
    AsyncSequenceConformance,
    AsyncStoreConformance,
    SequenceConformance,
    StoreConformance,
)


class Postgres:
    @pytest.fixture(autouse=True)
    def _server(self, postgres_module_url):
        self.url = postgres_module_url

    def with_driver(self, name):
        return f"postgresql+{name}://{self.url.partition('://')[2]}"


def close(client):
    return client.dispose() if hasattr(client, "dispose") else client.close()


class Sync(Postgres, StoreConformance, SequenceConformance):
    def make_store(self):
        self.opened.append(self.make_client())
        return open_store(self.opened[-1])

    @pytest.fixture(autouse=True)
    def _closed_by_who_opened_it(self):
        self.opened = []
        yield
        for client in self.opened:
            close(client)


class Async(Postgres, AsyncStoreConformance, AsyncSequenceConformance):
    async def make_store(self):
        self.opened.append(await self.make_client())
        return open_async_store(self.opened[-1])

    @pytest.fixture(autouse=True)
    async def _closed_by_who_opened_it(self):
        self.opened = []
        yield
        for client in self.opened:
            await close(client)


class TestPool(Sync):
    def make_client(self):
        return psycopg_pool.ConnectionPool(self.url, min_size=0, max_size=4, open=True)


class TestAsyncPool(Async):
    async def make_client(self):
        pool = psycopg_pool.AsyncConnectionPool(self.url, min_size=0, max_size=4, open=False)
        await pool.open()
        return pool


class TestPoolWithItsOwnWays(Sync):
    """Whatever the connections are set up for."""

    def make_client(self):
        settings = {"autocommit": True, "row_factory": dict_row, "prepare_threshold": None}
        return psycopg_pool.ConnectionPool(self.url, kwargs=settings, min_size=0, max_size=4, open=True)


class TestEngine(Sync):
    def make_client(self):
        return sqlalchemy.create_engine(self.with_driver("psycopg"), echo=True)


class TestPsycopg2Engine(Sync):
    def make_client(self):
        return sqlalchemy.create_engine(self.with_driver("psycopg2"))


class TestAsyncEngine(Async):
    async def make_client(self):
        return create_async_engine(self.with_driver("psycopg"))


class TestAsyncpgEngine(Async):
    async def make_client(self):
        return create_async_engine(self.with_driver("asyncpg"), echo=True)
