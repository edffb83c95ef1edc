"""From a URL to a store, with the extra to install in the error when a driver is missing."""

import inspect
from collections.abc import Callable
from importlib import import_module
from typing import Any, TypeVar

from msgspec import Struct

from dupeproof.core.protocols import AsyncStore, Store
from dupeproof.errors import ConfigError
from dupeproof.stores.urls import parse_url, redact

StoreT = TypeVar("StoreT", Store, AsyncStore)


class Backend(Struct, frozen=True):
    module: str
    driver: str | None = None
    extra: str | None = None


_REDIS = Backend("dupeproof.stores.redis", driver="redis", extra="redis")
_POSTGRES = Backend("dupeproof.stores.postgres", driver="psycopg", extra="postgres")

BACKENDS: dict[str, Backend] = {
    "memory": Backend("dupeproof.stores.memory"),
    "sqlite": Backend("dupeproof.stores.sqlite"),
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
    store: Store = _module(url).open_sync(parse_url(url))
    return store


def open_async_store(url: str) -> AsyncStore:
    """The async store for a URL. Needs no running loop."""
    store: AsyncStore = _module(url).open_async(parse_url(url))
    return store


def resolve_store(store: str | StoreT, opener: Callable[[str], StoreT], *, is_async: bool) -> StoreT:
    """A URL opened, or a store of the right kind as it is."""
    if isinstance(store, str):
        return opener(store)
    claim = getattr(store, "claim", None)
    if claim is None:
        raise ConfigError(f"expected a store URL or a store, got {type(store).__name__}")
    if inspect.iscoroutinefunction(claim) is not is_async:
        kind = "sync" if is_async else "async"
        raise ConfigError(
            f"{type(store).__name__} is {kind}; give it to the {kind} class, or pass a URL here"
        )
    return store


def _module(url: str) -> Any:
    scheme, separator, _ = url.partition("://")
    backend = BACKENDS.get(scheme) if separator else None
    if backend is None:
        raise ConfigError(
            f"{redact(url)!r} is not a store URL; write one of memory://, sqlite:///file.db, "
            "redis://host:6379/0, rediss://…, redis+sentinel://host:26379/name, redis+cluster://host:6379, "
            "postgresql://user@host/database"
        )
    try:
        return import_module(backend.module)
    except ModuleNotFoundError as exc:
        if backend.driver is None or (exc.name or "").partition(".")[0] != backend.driver:
            raise
        raise ConfigError(
            f"{scheme}:// needs the {backend.driver} driver, which is not installed; "
            f'run: pip install "dupeproof[{backend.extra}]"'
        ) from exc
