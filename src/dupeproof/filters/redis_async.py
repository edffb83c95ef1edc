"""The Redis store a filter is given, or a URL opened as one."""

from dupeproof.core.protocols import ability
from dupeproof.errors import ConfigError
from dupeproof.filters.runtime_async import IS_ASYNC
from dupeproof.stores import open_async_store
from dupeproof.stores.clients import StoreClient
from dupeproof.stores.factory import resolve_store
from dupeproof.stores.redis import AsyncRedisStore


def redis_store(store: str | StoreClient | AsyncRedisStore) -> AsyncRedisStore:
    opened = resolve_store(store, open_async_store, is_async=IS_ASYNC)
    found = ability(opened, AsyncRedisStore)
    if found is not None:
        return found
    raise ConfigError(f"this filter lives in Redis, and {type(opened).__name__} is none; give a redis:// URL")
