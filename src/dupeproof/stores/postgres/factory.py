"""The stores of a PostgreSQL URL, and those over a pool or engine of the caller's."""

from functools import partial
from typing import Any

from dupeproof.stores.postgres import callers_pool, callers_pool_async
from dupeproof.stores.postgres.pool import Pool
from dupeproof.stores.postgres.pool_async import AsyncPool
from dupeproof.stores.postgres.store import PostgresStore
from dupeproof.stores.postgres.store_async import AsyncPostgresStore
from dupeproof.stores.postgres.target import target
from dupeproof.stores.urls import StoreURL

__all__ = [
    "AsyncPostgresStore",
    "PostgresStore",
    "open_async",
    "open_sync",
    "over_async_client",
    "over_client",
]


def open_sync(url: StoreURL) -> PostgresStore:
    wanted = target(url)
    return PostgresStore(wanted, partial(Pool, wanted))


def open_async(url: StoreURL) -> AsyncPostgresStore:
    wanted = target(url)
    return AsyncPostgresStore(wanted, partial(AsyncPool, wanted))


def over_client(client: Any) -> PostgresStore:
    return callers_pool.store_over(client)


def over_async_client(client: Any) -> AsyncPostgresStore:
    return callers_pool_async.store_over(client)
