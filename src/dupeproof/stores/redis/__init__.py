"""Redis and what speaks its language: a single server, Sentinel, Cluster, Valkey."""

from typing import Any

from dupeproof.stores.redis import callers_client, callers_client_async
from dupeproof.stores.redis.store import RedisStore
from dupeproof.stores.redis.store_async import AsyncRedisStore
from dupeproof.stores.redis.targets import target
from dupeproof.stores.urls import StoreURL

__all__ = ["AsyncRedisStore", "RedisStore", "open_async", "open_sync", "over_async_client", "over_client"]


def open_sync(url: StoreURL) -> RedisStore:
    return RedisStore(target(url))


def open_async(url: StoreURL) -> AsyncRedisStore:
    return AsyncRedisStore(target(url))


def over_client(client: Any) -> RedisStore:
    return callers_client.store_over(client)


def over_async_client(client: Any) -> AsyncRedisStore:
    return callers_client_async.store_over(client)
