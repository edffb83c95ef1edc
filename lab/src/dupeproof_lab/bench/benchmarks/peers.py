"""Guarded calls of the other libraries, each written as its own README writes it, in its fastest configuration."""

import itertools
import warnings
from collections.abc import AsyncIterator, Awaitable, Callable, Iterator
from contextlib import asynccontextmanager, contextmanager
from typing import Any

from dupeproof_lab.bench.benchmarks.drivers import driver
from dupeproof_lab.bench.environments.base import Environment
from dupeproof_lab.bench.model import WINDOW
from dupeproof_lab.bench.shapes import Operation

CACHED = 100_000


def work() -> Callable[[str], int]:
    """What is guarded: as little as can be told apart. A number that a second run would not give again."""
    serial = itertools.count()

    def charge(order_id: str) -> int:  # noqa: ARG001 - the key
        return next(serial)

    return charge


def work_async() -> Callable[[str], Awaitable[int]]:
    serial = itertools.count()

    async def charge(order_id: str) -> int:  # noqa: ARG001 - the key
        return next(serial)

    return charge


# exactly-once


def _exactly_once_store(environment: Environment) -> Any:
    stores = driver("exactly_once").Store
    match environment.store:
        case "redis":
            return stores.redis(environment.url, committed_ttl=WINDOW)
        case "postgres":
            return stores.postgres(environment.url)
        case "sqlite":
            return stores.sqlite(environment.url.removeprefix("sqlite:///"))
        case _:
            return stores.memory()


def _key(order_id: str) -> str:
    return f"charge:{order_id}"


@contextmanager
def exactly_once(environment: Environment) -> Iterator[Operation]:
    store = _exactly_once_store(environment)
    try:
        yield driver("exactly_once").once(store, key=_key)(work())
    finally:
        store.close()


@asynccontextmanager
async def exactly_once_async(environment: Environment) -> AsyncIterator[Operation]:
    store = _exactly_once_store(environment)
    await (
        store.anow()
    )  # connects: tasks that come first together would each open a connection, and lose all but one
    try:
        yield driver("exactly_once").once(store, key=_key)(work_async())
    finally:
        await store.aclose()
        store.close()


# aws-lambda-powertools


class _Lambda:
    """What AWS hands to a function. Without it every call warns."""

    @staticmethod
    def get_remaining_time_in_millis() -> int:
        return 60_000


@contextmanager
def powertools(environment: Environment, *, cache: bool = False) -> Iterator[Operation]:
    package = "aws_lambda_powertools.utilities.idempotency"
    idempotency = driver(package)
    with driver("redis").Redis.from_url(environment.url, decode_responses=True) as client:
        with warnings.catch_warnings(action="ignore", category=DeprecationWarning):
            # Its own advice is to use this name, which is the class it warns of.
            store = driver(f"{package}.persistence.cache").CachePersistenceLayer(client=client)
        config = idempotency.IdempotencyConfig(
            expires_after_seconds=WINDOW, use_local_cache=cache, local_cache_max_items=CACHED
        )
        config.register_lambda_context(_Lambda())
        charge = idempotency.idempotent_function(
            data_keyword_argument="order_id", persistence_store=store, config=config
        )(work())
        yield lambda each: charge(order_id=each)


@contextmanager
def powertools_cached(environment: Environment) -> Iterator[Operation]:
    with powertools(environment, cache=True) as charge:
        yield charge


# idemkit


def _idemkit_config(*, cache: bool) -> Any:
    return driver("idemkit").MethodConfig(
        key_fields=["order_id"],
        scope=lambda *_: "bench",
        expires_after_seconds=float(WINDOW),
        use_local_cache=cache,
        local_cache_max_items=CACHED,
    )


async def _idemkit_backend(environment: Environment) -> Any:
    idemkit = driver("idemkit")
    match environment.store:
        case "redis":
            return idemkit.RedisBackend.from_url(environment.url)
        case "postgres":
            await driver("idemkit.backends.postgres").init_pg(environment.url)
            return idemkit.PostgresBackend.from_url(environment.url, max_size=32)
        case _:
            return idemkit.InMemoryBackend(max_size=10_000_000)


@asynccontextmanager
async def idemkit_async(environment: Environment, *, cache: bool = False) -> AsyncIterator[Operation]:
    backend = await _idemkit_backend(environment)
    async with backend:
        yield driver("idemkit").idempotent(backend=backend, config=_idemkit_config(cache=cache))(work_async())


@asynccontextmanager
async def idemkit_cached(environment: Environment) -> AsyncIterator[Operation]:
    async with idemkit_async(environment, cache=True) as charge:
        yield charge


@contextmanager
def idemkit_sync(environment: Environment) -> Iterator[Operation]:
    run = driver("idemkit.core.sync_bridge").run_sync
    backend = run(_idemkit_backend(environment))
    try:
        yield driver("idemkit").idempotent_sync(backend=backend, config=_idemkit_config(cache=False))(work())
    finally:
        run(backend.aclose())
