"""From a URL to a store, with the extra to install in the error when a driver is missing."""

from importlib import import_module
from typing import Any

from msgspec import Struct

from dupeproof.core.protocols import AsyncStore, Store
from dupeproof.errors import ConfigError
from dupeproof.stores._async.coalescing import AsyncCoalescingStore
from dupeproof.stores._sync.coalescing import CoalescingStore
from dupeproof.stores.urls import parse_url, redact


class Backend(Struct, frozen=True):
    module: str
    driver: str | None = None
    extra: str | None = None
    coalesced: bool = False
    """Whether concurrent calls leave as one batch: where each would pay for a commit of its own."""


_REDIS = Backend("dupeproof.stores.redis", driver="redis", extra="redis")
_POSTGRES = Backend("dupeproof.stores.postgres", driver="psycopg", extra="postgres", coalesced=True)

BACKENDS: dict[str, Backend] = {
    "memory": Backend("dupeproof.stores.memory"),
    "sqlite": Backend("dupeproof.stores.sqlite", coalesced=True),
    "redis": _REDIS,
    "rediss": _REDIS,
    "redis+sentinel": _REDIS,
    "rediss+sentinel": _REDIS,
    "redis+cluster": _REDIS,
    "rediss+cluster": _REDIS,
    "postgresql": _POSTGRES,
    "postgres": _POSTGRES,
}


def open_store(url: str) -> Store:
    """The sync store for a URL. Nothing is connected yet; that happens on first use."""
    backend = _backend(url)
    store = _module(backend, url).open_sync(parse_url(url))
    return CoalescingStore(store) if backend.coalesced else store


def open_async_store(url: str) -> AsyncStore:
    """The async store for a URL. Needs no running loop."""
    backend = _backend(url)
    store = _module(backend, url).open_async(parse_url(url))
    return AsyncCoalescingStore(store) if backend.coalesced else store


def _backend(url: str) -> Backend:
    scheme, separator, _ = url.partition("://")
    backend = BACKENDS.get(scheme) if separator else None
    if backend is None:
        raise ConfigError(
            f"{redact(url)!r} is not a store URL; write one of memory://, sqlite:///file.db, "
            "redis://host:6379/0, rediss://…, redis+sentinel://host:26379/name, redis+cluster://host:6379, "
            "postgresql://user@host/database"
        )
    return backend


def _module(backend: Backend, url: str) -> Any:
    try:
        return import_module(backend.module)
    except ModuleNotFoundError as exc:
        if backend.driver is None or (exc.name or "").partition(".")[0] != backend.driver:
            raise
        raise ConfigError(
            f"{url.partition(':')[0]}:// needs the {backend.driver} driver, which is not installed; "
            f'run: pip install "dupeproof[{backend.extra}]"'
        ) from exc
