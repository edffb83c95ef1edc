# Written by tools/twins.py from src/dupeproof/filters/redis_async.py; change that file instead.
"""The Redis store a filter is given, or a URL opened as one."""

from dupeproof.core.protocols import ability
from dupeproof.errors import ConfigError
from dupeproof.filters.runtime import IS_ASYNC
from dupeproof.stores import open_store
from dupeproof.stores.clients import StoreClient
from dupeproof.stores.factory import resolve_store
from dupeproof.stores.redis import RedisStore


def redis_store(store: str | StoreClient | RedisStore) -> RedisStore:
    opened = resolve_store(store, open_store, is_async=IS_ASYNC)
    found = ability(opened, RedisStore)
    if found is not None:
        return found
    raise ConfigError(f"this filter lives in Redis, and {type(opened).__name__} is none; give a redis:// URL")
