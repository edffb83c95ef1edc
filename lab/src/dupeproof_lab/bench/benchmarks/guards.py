"""Guarded calls: claim, run, store; and the replay of what was stored. Beside the bare round trips by hand, and peers."""

import json
import sqlite3
from collections.abc import AsyncIterator, Callable, Iterator
from contextlib import AbstractContextManager, asynccontextmanager, closing, contextmanager
from functools import partial
from typing import Any

from dupeproof import AsyncOnce, Once
from dupeproof_lab.bench.benchmarks import peers
from dupeproof_lab.bench.benchmarks.drivers import driver
from dupeproof_lab.bench.environments.base import Environment
from dupeproof_lab.bench.model import BY_HAND, OURS, WINDOW, Benchmark, Candidate, Store
from dupeproof_lab.bench.shapes import EACH, Operation, Shape, tasks, threads

CALLERS = 32


# dupeproof


@contextmanager
def guarded(environment: Environment, *, options: str = "", cache: int = 0) -> Iterator[Operation]:
    with Once(environment.url + options, window=WINDOW, cache=cache) as once:
        yield once(key="order_id")(peers.work())


@asynccontextmanager
async def guarded_async(environment: Environment, *, cache: int = 0) -> AsyncIterator[Operation]:
    async with AsyncOnce(environment.url, window=WINDOW, cache=cache) as once:
        yield once(key="order_id")(peers.work_async())


# By hand: the two round trips of a new call, and what a replay needs


@contextmanager
def by_hand_memory(_: Environment) -> Iterator[Operation]:
    charge, results = peers.work(), dict[str, int]()

    def call(order_id: str) -> int:
        if order_id not in results:
            results[order_id] = charge(order_id)
        return results[order_id]

    yield call


@contextmanager
def by_hand_redis(environment: Environment) -> Iterator[Operation]:
    charge = peers.work()
    with driver("redis").Redis.from_url(environment.url) as client:

        def call(order_id: str) -> Any:
            key = f"call:{order_id}"
            stored = client.set(key, "", nx=True, get=True, ex=WINDOW)
            if stored is not None:
                return json.loads(stored)
            value = charge(order_id)
            client.set(key, json.dumps(value), ex=WINDOW)
            return value

        yield call


def by_hand_sql(connection: Any, mark: str) -> Operation:
    """The same three statements for whatever calls itself SQL; `mark` is how its driver spells a parameter."""
    charge = peers.work()
    claim = f"INSERT INTO bench_calls (id) VALUES ({mark}) ON CONFLICT (id) DO NOTHING"  # noqa: S608 - a parameter
    store = f"UPDATE bench_calls SET result = {mark} WHERE id = {mark}"  # noqa: S608
    read = f"SELECT result FROM bench_calls WHERE id = {mark}"  # noqa: S608

    def call(order_id: str) -> Any:
        if connection.execute(claim, (order_id,)).rowcount == 0:
            return json.loads(connection.execute(read, (order_id,)).fetchone()[0])
        value = charge(order_id)
        connection.execute(store, (json.dumps(value), order_id))
        return value

    return call


@contextmanager
def by_hand_postgres(environment: Environment) -> Iterator[Operation]:
    with driver("psycopg").connect(environment.url, autocommit=True) as connection:
        connection.execute("CREATE TABLE IF NOT EXISTS bench_calls (id text PRIMARY KEY, result text)")
        yield by_hand_sql(connection, "%s")


@contextmanager
def by_hand_sqlite(environment: Environment) -> Iterator[Operation]:
    path = environment.url.removeprefix("sqlite:///")
    with closing(sqlite3.connect(path, isolation_level=None)) as connection:
        connection.execute("PRAGMA journal_mode = WAL")
        connection.execute("PRAGMA synchronous = FULL")
        connection.execute("CREATE TABLE IF NOT EXISTS bench_calls (id TEXT PRIMARY KEY, result TEXT)")
        yield by_hand_sql(connection, "?")


# The benchmarks

Make = Callable[[Environment], Any]
Entrant = tuple[str, str, Shape, Make]
"""Who, a name for it, its shape, and how it is made."""
NORMAL = "no fsync per commit (synchronous=NORMAL)"

_HAND: dict[Store, Callable[[Environment], AbstractContextManager[Operation]]] = {
    "memory": by_hand_memory,
    "sqlite": by_hand_sqlite,
    "redis": by_hand_redis,
    "postgres": by_hand_postgres,
}
_ONE: dict[Store, tuple[Entrant, ...]] = {
    "memory": (
        ("exactly-once", "exactly_once", EACH, peers.exactly_once),
        ("idemkit", "idemkit_async", tasks(1), peers.idemkit_async),
    ),
    "sqlite": (
        (OURS, "normal", EACH, partial(guarded, options="?synchronous=normal")),
        ("exactly-once", "exactly_once", EACH, peers.exactly_once),
    ),
    "redis": (
        ("exactly-once", "exactly_once", EACH, peers.exactly_once),
        ("aws-lambda-powertools", "powertools", EACH, peers.powertools),
        ("idemkit", "idemkit_async", tasks(1), peers.idemkit_async),
        ("idemkit", "idemkit_sync", EACH, peers.idemkit_sync),
    ),
    "postgres": (
        ("exactly-once", "exactly_once", EACH, peers.exactly_once),
        ("idemkit", "idemkit_async", tasks(1), peers.idemkit_async),
    ),
}
_MANY: dict[Store, tuple[Entrant, ...]] = {
    "redis": (
        ("exactly-once", "exactly_once_async", tasks(CALLERS), peers.exactly_once_async),
        ("exactly-once", "exactly_once", threads(CALLERS), peers.exactly_once),
        ("aws-lambda-powertools", "powertools", threads(CALLERS), peers.powertools),
        ("idemkit", "idemkit_async", tasks(CALLERS), peers.idemkit_async),
        ("idemkit", "idemkit_sync", threads(CALLERS), peers.idemkit_sync),
    ),
    "postgres": (
        ("exactly-once", "exactly_once_async", tasks(CALLERS), peers.exactly_once_async),
        ("exactly-once", "exactly_once", threads(CALLERS), peers.exactly_once),
        ("idemkit", "idemkit_async", tasks(CALLERS), peers.idemkit_async),
    ),
}
_CACHED: tuple[Entrant, ...] = (
    (OURS, "ours", EACH, partial(guarded, cache=peers.CACHED)),
    (OURS, "ours_async", tasks(1), partial(guarded_async, cache=peers.CACHED)),
    ("aws-lambda-powertools", "powertools", EACH, peers.powertools_cached),
    ("idemkit", "idemkit_async", tasks(1), peers.idemkit_cached),
)
_TITLES: dict[Store, str] = {
    "memory": "memory",
    "sqlite": "SQLite",
    "redis": "Redis",
    "postgres": "PostgreSQL",
}


def _benchmark(
    store: Store, name: str, title: str, entrants: tuple[Entrant, ...], *, replay: bool
) -> Benchmark:
    kind = "replay" if replay else "new"
    return Benchmark(
        title=f"{_TITLES[store]}, guarded call, {title}{kind}",
        store=store,
        replay=replay,
        candidates=tuple(
            Candidate(
                name=f"{store}.{name}.{kind}.{entrant}",
                who=who,
                what="synchronous=normal" if entrant == "normal" else "",
                shape=shape,
                make=make,
                layout=None if replay or who != OURS else f"{store}.records",
                durability=NORMAL if store == "sqlite" and entrant in ("normal", "exactly_once") else None,
            )
            for who, entrant, shape, make in entrants
        ),
    )


def _one(store: Store) -> tuple[Entrant, ...]:
    return (
        (BY_HAND, "by_hand", EACH, _HAND[store]),
        (OURS, "ours", EACH, guarded),
        (OURS, "ours_async", tasks(1), guarded_async),
        *_ONE[store],
    )


def _many(store: Store) -> tuple[Entrant, ...]:
    return (
        (OURS, "ours_tasks", tasks(CALLERS), guarded_async),
        (OURS, "ours_threads", threads(CALLERS), guarded),
        *_MANY[store],
    )


def guard_heats(store: Store) -> list[Benchmark]:
    benchmarks = [
        _benchmark(store, "one", "one caller, ", _one(store), replay=replay) for replay in (False, True)
    ]
    if store in _MANY:
        benchmarks += [
            _benchmark(store, "many", f"{CALLERS} callers, ", _many(store), replay=replay)
            for replay in (False, True)
        ]
    if store == "redis":
        benchmarks.append(_benchmark(store, "cached", "local cache, ", _CACHED, replay=True))
    return benchmarks
