"""Every store passes the suite we ship, sync and async, on the real servers."""

import asyncio

import pytest

from dupeproof.stores import open_async_store, open_store
from dupeproof.testing.conformance import (
    AsyncSequenceConformance,
    AsyncStoreConformance,
    AsyncWaitConformance,
    SequenceConformance,
    StoreConformance,
    WaitConformance,
)


class Sync(StoreConformance, SequenceConformance):
    url: str

    def make_store(self):
        return open_store(self.url)


class Async(AsyncStoreConformance, AsyncSequenceConformance):
    url: str

    async def make_store(self):
        return open_async_store(self.url)


class Scattered:
    """Each item of a batch asked for by a task of its own, for the coalescer to gather them again."""

    def __init__(self, store):
        self._store = store

    def __getattr__(self, name):
        verb = getattr(self._store, name)
        if name not in {"claim", "finish", "fail", "renew", "mark"}:
            return verb

        async def scattered(items):
            answers = await asyncio.gather(*(verb([item]) for item in items), return_exceptions=True)
            for answer in answers:
                if isinstance(answer, BaseException):
                    raise answer
            return [one for [one] in answers]

        return scattered


class Coalesced(AsyncStoreConformance):
    url: str

    async def make_store(self):
        return Scattered(open_async_store(self.url))


class Memory:
    url = "memory://"


class SQLite:
    @pytest.fixture(autouse=True)
    def _file(self, tmp_path):
        self.url = f"sqlite:///{tmp_path}/dedup.db"


class Redis:
    @pytest.fixture(autouse=True)
    def _server(self, redis_url):
        self.url = redis_url


class Valkey:
    @pytest.fixture(autouse=True)
    def _server(self, valkey_url):
        self.url = valkey_url


class RedisCluster:
    @pytest.fixture(autouse=True)
    def _server(self, redis_cluster_url):
        self.url = redis_cluster_url


class RedisSentinel:
    @pytest.fixture(autouse=True)
    def _server(self, redis_sentinel_url):
        self.url = redis_sentinel_url


class Postgres:
    @pytest.fixture(autouse=True)
    def _server(self, postgres_module_url):
        self.url = postgres_module_url


class RedisOverPostgres:
    @pytest.fixture(autouse=True)
    def _servers(self, redis_url, postgres_module_url):
        self.url = f"{redis_url}+{postgres_module_url}"


class ClusterOverSQLite:
    @pytest.fixture(autouse=True)
    def _servers(self, redis_cluster_url, tmp_path):
        self.url = f"{redis_cluster_url}+sqlite:///{tmp_path}/dedup.db"


class TestMemory(Memory, Sync, WaitConformance): ...


class TestAsyncMemory(Memory, Async, AsyncWaitConformance): ...


class TestSQLite(SQLite, Sync): ...


class TestAsyncSQLite(SQLite, Async): ...


class TestRedis(Redis, Sync): ...


class TestAsyncRedis(Redis, Async): ...


class TestValkey(Valkey, Sync): ...


class TestAsyncValkey(Valkey, Async): ...


class TestRedisCluster(RedisCluster, Sync): ...


class TestAsyncRedisCluster(RedisCluster, Async): ...


class TestRedisSentinel(RedisSentinel, Sync): ...


class TestAsyncRedisSentinel(RedisSentinel, Async): ...


class TestPostgres(Postgres, Sync): ...


class TestAsyncPostgres(Postgres, Async): ...


class TestCoalescedSQLite(SQLite, Coalesced): ...


class TestCoalescedPostgres(Postgres, Coalesced): ...


class TestRedisOverPostgres(RedisOverPostgres, Sync): ...


class TestAsyncRedisOverPostgres(RedisOverPostgres, Async): ...


class TestClusterOverSQLite(ClusterOverSQLite, Sync): ...


class TestAsyncClusterOverSQLite(ClusterOverSQLite, Async): ...
