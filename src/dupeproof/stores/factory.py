"""From a URL to a store, with the extra to install in the error when a driver is missing."""

import inspect
from collections.abc import Callable, Sequence
from importlib import import_module
from typing import Any, TypeVar

from msgspec import Struct
from msgspec.structs import replace

from dupeproof import defaults
from dupeproof.core.events import Listener
from dupeproof.core.protocols import AsyncPurgeable, AsyncStore, Purgeable, Store
from dupeproof.errors import ConfigError
from dupeproof.sql.database_option import is_mysql, without_driver
from dupeproof.sql.django_alias import alias_of, url_of
from dupeproof.stores import clients
from dupeproof.stores.clients import StoreClient
from dupeproof.stores.tiered import TieredStore
from dupeproof.stores.tiered_async import AsyncTieredStore
from dupeproof.stores.urls import parse_url, redact, split_tiers
from dupeproof.stores.wrappers import CoalescingStore, ObservedStore
from dupeproof.stores.wrappers_async import AsyncCoalescingStore, AsyncObservedStore

StoreT = TypeVar("StoreT", Store, AsyncStore, Purgeable, AsyncPurgeable)


class Backend(Struct, frozen=True):
    module: str
    driver: str | None = None
    extra: str | None = None
    coalesces_threads: bool = False
    """Whether concurrent calls of threads leave as one batch: where each would pay for a commit or a wait of its own.
    Not on a cluster, where one node that is slow or gone would hold up the keys of all others."""
    coalesces_tasks: bool = False
    """The same for tasks. On Redis their commands share a connection and leave together already."""
    is_elsewhere: bool = True
    """Whether a call leaves the memory of the process, and so is worth timing."""


_REDIS = Backend("dupeproof.stores.redis", driver="redis", extra="redis", coalesces_threads=True)
_REDIS_CLUSTER = replace(_REDIS, coalesces_threads=False)
_POSTGRES = Backend(
    "dupeproof.stores.postgres.factory",
    driver="psycopg",
    extra="postgres",
    coalesces_threads=True,
    coalesces_tasks=True,
)

BACKENDS: dict[str, Backend] = {
    "memory": Backend("dupeproof.stores.memory", is_elsewhere=False),
    "sqlite": Backend("dupeproof.stores.sqlite", coalesces_threads=True, coalesces_tasks=True),
    "redis": _REDIS,
    "rediss": _REDIS,
    "unix": _REDIS,
    "redis+unix": _REDIS,
    "redis+sentinel": _REDIS,
    "rediss+sentinel": _REDIS,
    "redis+cluster": _REDIS_CLUSTER,
    "rediss+cluster": _REDIS_CLUSTER,
    "postgresql": _POSTGRES,
    "postgres": _POSTGRES,
}


_CLIENTS = {
    "redis": _REDIS,
    "psycopg_pool": _POSTGRES,
    "sqlalchemy": _POSTGRES,
    "asyncpg": _POSTGRES,
}
"""By the library a client of the caller's comes from."""


def open_store(url: str | StoreClient, observers: Sequence[Listener] = ()) -> Store:
    """The sync store for a URL, or over a client of the caller's. Nothing is connected yet; that happens on first use."""
    if not isinstance(url, str):
        backend = _of_client(url, is_async=False)
        store = _module(backend, backend.driver or "").over_client(url)
        if observers:
            store = ObservedStore(store, observers)
        return CoalescingStore(store) if backend.coalesces_threads else store
    url = plain_url(url)
    if tiers := tiers_of(url):
        fast, durable = (open_store(tier, observers) for tier in tiers)
        return TieredStore(fast, durable)  # type: ignore[arg-type]
    backend = _backend(url)
    store = _module(backend, url).open_sync(parse_url(url))
    if observers and backend.is_elsewhere:
        store = ObservedStore(store, observers)
    return CoalescingStore(store) if backend.coalesces_threads else store


def open_async_store(url: str | StoreClient, observers: Sequence[Listener] = ()) -> AsyncStore:
    """The async store for a URL, or over a client of the caller's. Needs no running loop."""
    if not isinstance(url, str):
        backend = _of_client(url, is_async=True)
        store = _module(backend, backend.driver or "").over_async_client(url)
        if observers:
            store = AsyncObservedStore(store, observers)
        return AsyncCoalescingStore(store) if backend.coalesces_tasks else store
    url = plain_url(url)
    if tiers := tiers_of(url):
        fast, durable = (open_async_store(tier, observers) for tier in tiers)
        return AsyncTieredStore(fast, durable)  # type: ignore[arg-type]
    backend = _backend(url)
    store = _module(backend, url).open_async(parse_url(url))
    if observers and backend.is_elsewhere:
        store = AsyncObservedStore(store, observers)
    return AsyncCoalescingStore(store) if backend.coalesces_tasks else store


def resolve_store(
    store: str | StoreClient | StoreT,
    opener: Callable[[str | StoreClient], StoreT],
    *,
    is_async: bool,
    verb: str = "finish",
) -> StoreT:
    """A URL opened, or a client's store, or a store of the right kind as it is: one that has this verb, which no guard has."""
    if isinstance(store, str) or clients.checked_kind(store, is_async=is_async) is not None:
        return opener(store)  # type: ignore[arg-type] # told by its type's name
    found = getattr(store, verb, None)
    if found is None:
        raise ConfigError(
            f"expected a store URL, a store, or a client (redis.Redis, psycopg_pool.ConnectionPool, SQLAlchemy's Engine), "
            f"got {type(store).__name__}; of a guard give the URL or store it has"
        )
    if inspect.iscoroutinefunction(getattr(store, "close", found)) is not is_async:
        kind = "sync" if is_async else "async"
        raise ConfigError(
            f"{type(store).__name__} is {kind}; give it to the {kind} class, or pass a URL here"
        )
    return store  # type: ignore[return-value] # it has the verb, so it is no client


def plain_url(given: str) -> str:
    """The URL of an alias of Django's, and any other without the driver that SQLAlchemy writes into it."""
    alias = alias_of(given)
    return without_driver(given if alias is None else url_of(alias))


def durable_url(url: str) -> str:
    """The URL itself, or that of the durable one of two tiers."""
    tiers = tiers_of(url)
    return plain_url(url if tiers is None else tiers[1])


def tiers_of(url: str) -> tuple[str, str] | None:
    """`redis://…+postgresql://…` is two stores: the fast tier and the durable one."""
    parts = split_tiers(url)
    if len(parts) == 1:
        return None
    if len(parts) > 2:
        raise ConfigError(f"{redact(url)!r} has more than two tiers; write one fast and one durable URL")
    fast, durable = parts
    if fast.startswith(("redis", "unix")) and "timeout=" not in fast:
        # Who waits longer for the fast tier than for the durable one has it for nothing.
        fast += f"{'&' if '?' in fast else '?'}timeout={defaults.FAST_TIER_TIMEOUT}"
    return fast, durable


def _of_client(client: StoreClient, *, is_async: bool) -> Backend:
    kind = clients.checked_kind(client, is_async=is_async)
    if kind is None:
        raise ConfigError(f"a {type(client).__qualname__} is neither a URL nor a client dupeproof knows")
    # Tasks share no connection here, as they do with our own client: so they share round trips instead.
    return replace(
        _CLIENTS[kind.library], coalesces_threads=not kind.is_cluster, coalesces_tasks=not kind.is_cluster
    )


def _backend(url: str) -> Backend:
    scheme, separator, _ = url.partition("://")
    backend = BACKENDS.get(scheme) if separator else None
    if is_mysql(url):
        raise ConfigError(
            f"{redact(url)}: MariaDB and MySQL hold inboxes and outboxes only; records and marks are kept in "
            "sqlite:///file.db, redis://… or postgresql://…"
        )
    if backend is None:
        raise ConfigError(
            f"{redact(url)!r} is not a store URL; write one of memory://, sqlite:///file.db, "
            "redis://host:6379/0, rediss://…, unix:///redis.sock, redis+sentinel://host:26379/name, redis+cluster://host:6379, "
            "postgresql://user@host/database, or two tiers as redis://…+postgresql://…; or 'django:default'"
        )
    return backend


def _module(backend: Backend, url: str) -> Any:
    """`url` may be the name of a driver, where a client was given."""
    try:
        return import_module(backend.module)
    except ModuleNotFoundError as exc:
        if backend.driver is None or (exc.name or "").partition(".")[0] != backend.driver:
            raise
        scheme, separator, _ = url.partition("://")
        raise ConfigError(
            f"{scheme}{separator} needs the {backend.driver} driver, which is not installed; "
            f'run: pip install "dupeproof[{backend.extra}]"'
        ) from exc
