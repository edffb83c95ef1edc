"""The stores of a PostgreSQL URL."""

from dupeproof.stores.postgres.store import PostgresStore
from dupeproof.stores.postgres.store_async import AsyncPostgresStore
from dupeproof.stores.postgres.target import target
from dupeproof.stores.urls import StoreURL

__all__ = ["AsyncPostgresStore", "PostgresStore", "open_async", "open_sync"]


def open_sync(url: StoreURL) -> PostgresStore:
    return PostgresStore(target(url))


def open_async(url: StoreURL) -> AsyncPostgresStore:
    return AsyncPostgresStore(target(url))
