"""Claims and marks in the process's own memory: the fastest store, and gone with the process.

`memory://` is private to whoever opens it; `memory://name` is shared by everyone in the process who opens that name,
sync and async alike.
"""

from dupeproof.errors import ConfigError
from dupeproof.stores.memory.store import MemoryStore
from dupeproof.stores.memory.store_async import AsyncMemoryStore
from dupeproof.stores.urls import StoreURL

__all__ = ["AsyncMemoryStore", "MemoryStore", "open_async", "open_sync"]

_shared: dict[str, MemoryStore] = {}


def _memory(url: StoreURL) -> MemoryStore:
    url.take(())
    name = url.parts.netloc + url.parts.path
    if not name:
        return MemoryStore()
    if name.startswith("/"):
        raise ConfigError(
            "memory:///… has no meaning; write memory:// for a private store, memory://name to share one"
        )
    return _shared.setdefault(name, MemoryStore())


def open_sync(url: StoreURL) -> MemoryStore:
    return _memory(url)


def open_async(url: StoreURL) -> AsyncMemoryStore:
    return AsyncMemoryStore(_memory(url))
