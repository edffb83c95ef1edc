"""Seen before? One id after the other, from many callers, and in batches; beside the same by hand."""

import sqlite3
from collections.abc import AsyncIterator, Callable, Iterator
from contextlib import asynccontextmanager, closing, contextmanager
from operator import not_
from typing import Any

from dupeproof import AsyncOnce, Once
from dupeproof_lab.bench.benchmarks.drivers import driver, lean_table
from dupeproof_lab.bench.environments.base import Environment
from dupeproof_lab.bench.model import BY_HAND, OURS, WINDOW, Benchmark, Candidate
from dupeproof_lab.bench.shapes import BATCHES, EACH, LOOP, Operation, tasks, threads

MANY = 64


# dupeproof


@contextmanager
def seen(environment: Environment) -> Iterator[Operation]:
    with Once(environment.url, window=WINDOW) as once:
        yield once.seen


@asynccontextmanager
async def seen_async(environment: Environment) -> AsyncIterator[Operation]:
    async with AsyncOnce(environment.url, window=WINDOW) as once:
        yield once.seen


@contextmanager
def fresh(environment: Environment) -> Iterator[Operation]:
    with Once(environment.url, window=WINDOW) as once:
        yield once.fresh


def ours(store: str) -> tuple[Candidate, ...]:
    """The same four ways on every store."""
    rows: tuple[tuple[str, str, Any, Any, Callable[[Any], int]], ...] = (
        ("seen", "seen", EACH, seen, not_),
        ("tasks", "seen", tasks(MANY), seen_async, not_),
        ("threads", "seen", threads(MANY), seen, not_),
        ("fresh", "fresh", BATCHES, fresh, len),
    )
    return tuple(
        Candidate(
            name=f"{store}.{name}",
            who=OURS,
            what=what,
            shape=shape,
            make=make,
            fresh=new,
            layout=f"{store}.marks",
        )
        for name, what, shape, make, new in rows
    )


# By hand


@contextmanager
def set_loop(_: Environment) -> Iterator[Operation]:
    known: set[str] = set()

    def loop(ids: list[str]) -> int:
        before = len(known)
        for each in ids:
            if each in known:
                continue
            known.add(each)
        return len(known) - before

    yield loop


@contextmanager
def _sqlite(environment: Environment) -> Iterator[sqlite3.Connection]:
    path = environment.url.removeprefix("sqlite:///")
    with closing(sqlite3.connect(path, isolation_level=None, check_same_thread=False)) as connection:
        connection.execute("PRAGMA journal_mode = WAL")
        connection.execute("PRAGMA synchronous = FULL")
        connection.execute(
            "CREATE TABLE IF NOT EXISTS seen (id TEXT PRIMARY KEY, expires_at REAL) WITHOUT ROWID"
        )
        yield connection


_SQLITE_INSERT = f"INSERT OR IGNORE INTO seen VALUES (?, unixepoch() + {WINDOW})"  # noqa: S608


@contextmanager
def sqlite_insert(environment: Environment) -> Iterator[Operation]:
    with _sqlite(environment) as connection:
        yield lambda each: connection.execute(_SQLITE_INSERT, (each,)).rowcount


@contextmanager
def sqlite_executemany(environment: Environment) -> Iterator[Operation]:
    with _sqlite(environment) as connection:

        def batch(ids: list[str]) -> int:
            connection.execute("BEGIN IMMEDIATE")
            new = connection.executemany(_SQLITE_INSERT, [(each,) for each in ids]).rowcount
            connection.execute("COMMIT")
            return new

        yield batch


@contextmanager
def redis_set(environment: Environment) -> Iterator[Operation]:
    with driver("redis").Redis.from_url(environment.url) as client:
        yield lambda each: client.set(f"dedup:{each}", 1, nx=True, ex=WINDOW)


@asynccontextmanager
async def redis_set_async(environment: Environment) -> AsyncIterator[Operation]:
    async with driver("redis.asyncio").Redis.from_url(environment.url) as client:

        async def seen(each: str) -> Any:
            return await client.set(f"dedup:{each}", 1, nx=True, ex=WINDOW)

        yield seen


@contextmanager
def redis_pipeline(environment: Environment) -> Iterator[Operation]:
    with driver("redis").Redis.from_url(environment.url) as client:

        def batch(ids: list[str]) -> Any:
            pipeline = client.pipeline(transaction=False)
            for each in ids:
                pipeline.set(f"dedup:{each}", 1, nx=True, ex=WINDOW)
            return pipeline.execute()

        yield batch


_POSTGRES_INSERT = (
    f"INSERT INTO bench_seen VALUES (%s, now() + interval '{WINDOW} s') ON CONFLICT (id) DO NOTHING"  # noqa: S608
)
_POSTGRES_UNNEST = (
    f"INSERT INTO bench_seen SELECT unnest(%s::uuid[]), now() + interval '{WINDOW} s' "
    "ON CONFLICT (id) DO NOTHING RETURNING id"
)


@contextmanager
def postgres_insert(environment: Environment) -> Iterator[Operation]:
    with lean_table(environment) as connection:
        yield lambda each: connection.execute(_POSTGRES_INSERT, (each,)).rowcount


@contextmanager
def postgres_unnest(environment: Environment) -> Iterator[Operation]:
    with lean_table(environment) as connection:
        yield lambda ids: len(connection.execute(_POSTGRES_UNNEST, (ids,)).fetchall())


@contextmanager
def postgres_executemany(environment: Environment) -> Iterator[Operation]:
    with lean_table(environment) as connection:

        def batch(ids: list[str]) -> int:
            with connection.transaction(), connection.cursor() as cursor:
                cursor.executemany(_POSTGRES_INSERT, [(each,) for each in ids])
                return int(cursor.rowcount)

        yield batch


_TEXTBOOK = """
    CREATE TABLE IF NOT EXISTS bench_textbook (
        id bigserial, message_id text PRIMARY KEY, created_at timestamptz DEFAULT now(), expires_at timestamptz);
    CREATE INDEX IF NOT EXISTS bench_textbook_expiry ON bench_textbook (expires_at)
"""


@contextmanager
def postgres_textbook(environment: Environment) -> Iterator[Operation]:
    insert = (
        "INSERT INTO bench_textbook (message_id, expires_at) "
        f"SELECT unnest(%s::text[]), now() + interval '{WINDOW} s' ON CONFLICT DO NOTHING RETURNING id"
    )
    with driver("psycopg").connect(environment.url, autocommit=True) as connection:
        connection.execute(_TEXTBOOK)
        yield lambda ids: len(connection.execute(insert, (ids,)).fetchall())


def _answers(answers: list[Any]) -> int:
    return sum(map(bool, answers))


MEMORY = Benchmark(
    title="In process",
    store="memory",
    same_count=True,
    candidates=(
        Candidate(
            name="memory.loop",
            who=BY_HAND,
            what="if x in s … s.add(x)",
            shape=LOOP,
            make=set_loop,
            fresh=int,
            layout="memory.set",
        ),
        *(each for each in ours("memory") if each.name in ("memory.seen", "memory.fresh")),
    ),
)
SQLITE = Benchmark(
    title="SQLite",
    store="sqlite",
    candidates=(
        Candidate(
            name="sqlite.insert",
            who=BY_HAND,
            what="INSERT OR IGNORE, commit per call",
            shape=EACH,
            make=sqlite_insert,
            fresh=int,
            layout="sqlite.table",
        ),
        Candidate(
            name="sqlite.executemany",
            who=BY_HAND,
            what="executemany",
            shape=BATCHES,
            make=sqlite_executemany,
            fresh=int,
            layout="sqlite.table",
        ),
        *ours("sqlite"),
    ),
)
REDIS = Benchmark(
    title="Redis",
    store="redis",
    candidates=(
        Candidate(
            name="redis.set",
            who=BY_HAND,
            what="redis-py SET NX EX",
            shape=EACH,
            make=redis_set,
            fresh=bool,
            layout="redis.key",
        ),
        Candidate(
            name="redis.pipeline",
            who=BY_HAND,
            what="redis-py pipeline of SET NX EX",
            shape=BATCHES,
            make=redis_pipeline,
            fresh=_answers,
            layout="redis.key",
        ),
        Candidate(
            name="redis.asyncio",
            who=BY_HAND,
            what="redis-py asyncio SET NX EX",
            shape=tasks(MANY),
            make=redis_set_async,
            fresh=bool,
            layout="redis.key",
        ),
        *ours("redis"),
    ),
)
POSTGRES = Benchmark(
    title="PostgreSQL",
    store="postgres",
    candidates=(
        Candidate(
            name="postgres.insert",
            who=BY_HAND,
            what="psycopg INSERT … ON CONFLICT, autocommit",
            shape=EACH,
            make=postgres_insert,
            fresh=int,
            layout="postgres.lean",
        ),
        Candidate(
            name="postgres.unnest",
            who=BY_HAND,
            what="INSERT … SELECT unnest … ON CONFLICT",
            shape=BATCHES,
            make=postgres_unnest,
            fresh=int,
            layout="postgres.lean",
        ),
        Candidate(
            name="postgres.executemany",
            who=BY_HAND,
            what="executemany INSERT … ON CONFLICT",
            shape=BATCHES,
            make=postgres_executemany,
            fresh=int,
            layout="postgres.lean",
        ),
        Candidate(
            name="postgres.textbook",
            who=BY_HAND,
            what="the same unnest into the textbook table",
            shape=BATCHES,
            make=postgres_textbook,
            fresh=int,
            layout="postgres.textbook",
        ),
        *ours("postgres"),
    ),
)
