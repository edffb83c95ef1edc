"""Stores over a client of the caller's pass the suite we ship, as those we open do."""

from urllib.parse import urlsplit

import pytest
import redis
import redis.asyncio
from redis.asyncio.sentinel import Sentinel as AsyncSentinel
from redis.sentinel import Sentinel

from dupeproof.stores import open_async_store, open_store
from dupeproof.testing.conformance import (
    AsyncSequenceConformance,
    AsyncStoreConformance,
    SequenceConformance,
    StoreConformance,
)


class Sync(StoreConformance, SequenceConformance):
    def make_store(self):
        self.clients.append(self.make_client())
        return open_store(self.clients[-1])

    @pytest.fixture(autouse=True)
    def _closed_by_who_opened_it(self):
        self.clients = []
        yield
        for client in self.clients:
            client.close()


class Async(AsyncStoreConformance, AsyncSequenceConformance):
    async def make_store(self):
        self.clients.append(self.make_client())
        return open_async_store(self.clients[-1])

    @pytest.fixture(autouse=True)
    async def _closed_by_who_opened_it(self):
        self.clients = []
        yield
        for client in self.clients:
            await client.aclose()


class Single:
    @pytest.fixture(autouse=True)
    def _server(self, redis_url):
        self.url = redis_url


class Cluster:
    @pytest.fixture(autouse=True)
    def _server(self, redis_cluster_url):
        self.parts = urlsplit(redis_cluster_url.split(",")[0])


class Watched:
    @pytest.fixture(autouse=True)
    def _server(self, redis_sentinel_url):
        parts = urlsplit(redis_sentinel_url)
        hosts = [each.rsplit(":", 1) for each in parts.netloc.rpartition("@")[2].split(",")]
        self.sentinels = [(host, int(port)) for host, port in hosts]
        self.service = parts.path.strip("/").split("/")[0]


class TestRedis(Single, Sync):
    def make_client(self):
        return redis.Redis.from_url(self.url)


class TestAsyncRedis(Single, Async):
    def make_client(self):
        return redis.asyncio.Redis.from_url(self.url)


class TestDecoding(Single, Sync):
    """Whatever the client makes of replies for others, and however it waits."""

    def make_client(self):
        return redis.Redis.from_url(self.url, decode_responses=True, protocol=3, socket_timeout=None)


class TestAsyncDecoding(Single, Async):
    def make_client(self):
        return redis.asyncio.Redis.from_url(self.url, decode_responses=True, protocol=3, socket_timeout=None)


class TestCluster(Cluster, Sync):
    def make_client(self):
        return redis.RedisCluster(host=self.parts.hostname, port=self.parts.port)


class TestAsyncCluster(Cluster, Async):
    def make_client(self):
        return redis.asyncio.RedisCluster(host=self.parts.hostname, port=self.parts.port)


class TestSentinel(Watched, Sync):
    def make_client(self):
        return Sentinel(self.sentinels).master_for(self.service)


class TestAsyncSentinel(Watched, Async):
    def make_client(self):
        return AsyncSentinel(self.sentinels).master_for(self.service)
