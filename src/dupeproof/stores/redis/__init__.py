"""Redis and what speaks its language: a single server, Sentinel, Cluster, Valkey."""

from dupeproof.stores.redis.store import RedisStore
from dupeproof.stores.redis.store_async import AsyncRedisStore
from dupeproof.stores.redis.targets import target
from dupeproof.stores.urls import StoreURL

__all__ = ["AsyncRedisStore", "RedisStore", "open_async", "open_sync"]


def open_sync(url: StoreURL) -> RedisStore:
    return RedisStore(target(url))


def open_async(url: StoreURL) -> AsyncRedisStore:
    return AsyncRedisStore(target(url))
