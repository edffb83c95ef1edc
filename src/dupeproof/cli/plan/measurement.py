"""How many bytes an id takes on a server: fill it, look at its size, empty it."""

import os
import uuid
from collections.abc import Callable, Iterator
from contextlib import closing, contextmanager
from urllib.parse import quote

from msgspec import Struct

from dupeproof.core.protocols import SeenSet, Store, ability
from dupeproof.core.records import ClaimRequest, Finish, Mark, Terms
from dupeproof.errors import ConfigError
from dupeproof.stores import open_store
from dupeproof.stores.urls import parse_url, redact

WINDOW = 600_000
"""Milliseconds. What is left behind by a crash is gone after that."""
_BATCH = 1_000
Step = Callable[[int], object]


class Measured(Struct, frozen=True):
    mark: float
    """Bytes of a mark, with its share of all indexes."""
    record: float
    """Bytes of a finished call, with its result."""


def measure(url: str, ids: int, result_size: int, step: Step = lambda _: None) -> Measured:
    """On a server of the user's: in a schema of its own on PostgreSQL, under keys of its own on Redis."""
    open_store(url).close()  # raises for a wrong URL or a missing driver before anything is shown
    scheme = parse_url(url).scheme.partition("+")[0]
    if scheme in ("redis", "rediss", "unix"):
        return _measured(url, ids, result_size, _redis_bytes, step)
    if scheme in ("postgresql", "postgres"):
        with _own_schema(url) as own:
            return _measured(own, ids, result_size, _postgres_bytes, step)
    raise ConfigError(f"--measure takes a redis:// or postgresql:// URL; got {redact(url)}")


def _measured(url: str, ids: int, result_size: int, size: Callable[[str, str], int], step: Step) -> Measured:
    with closing(open_store(url)) as store:
        store.check()
        per_id = {}
        for kind, fill in (("marks", _mark), ("records", _record)):
            before = size(url, kind)
            keys = []
            for start in range(0, ids, _BATCH):
                batch = [os.urandom(16) for _ in range(min(_BATCH, ids - start))]
                fill(store, batch, result_size)
                keys += batch
                step(len(batch))
            per_id[kind] = (size(url, kind) - before) / ids
            for start in range(0, ids, _BATCH):
                store.forget(keys[start : start + _BATCH])
    return Measured(per_id["marks"], per_id["records"])


def _mark(store: Store, keys: list[bytes], _: int) -> None:
    marks = ability(store, SeenSet)  # type: ignore[type-abstract]
    assert marks is not None
    marks.mark([Mark(key, WINDOW) for key in keys])


def _record(store: Store, keys: list[bytes], result_size: int) -> None:
    terms = Terms(namespace="plan", window=WINDOW, lease=60_000)
    requests = [
        ClaimRequest(key=key, token=os.urandom(8), fingerprint=os.urandom(16), terms=terms) for key in keys
    ]
    store.claim(requests)
    # Random, for what can be compressed takes less than it will.
    store.finish([Finish(each.key, each.token, WINDOW, os.urandom(result_size), "json") for each in requests])


def _redis_bytes(url: str, _: str) -> int:
    from dupeproof.doctor.redis import look  # noqa: PLC0415 - an extra

    nodes, _kind = look(parse_url(url))
    return sum(node.used_memory for node in nodes)


def _postgres_bytes(url: str, kind: str) -> int:
    from dupeproof.stores.postgres.target import plain_connection, target  # noqa: PLC0415 - an extra

    with plain_connection(target(parse_url(url))) as connection:
        connection.execute(f"VACUUM dupeproof_{kind}")
        row = connection.execute(
            "SELECT pg_total_relation_size(%s::regclass)", (f"dupeproof_{kind}",)
        ).fetchone()
    assert row is not None
    return int(row[0])


@contextmanager
def _own_schema(url: str) -> Iterator[str]:
    import psycopg  # noqa: PLC0415 - an extra

    from dupeproof.stores.postgres.faults import unavailable  # noqa: PLC0415 - the same
    from dupeproof.stores.postgres.target import plain_connection, target  # noqa: PLC0415 - the same

    name = f"dupeproof_plan_{uuid.uuid4().hex[:8]}"
    try:
        connection = plain_connection(target(parse_url(url)))
        connection.execute(f"CREATE SCHEMA {name}")
    except psycopg.Error as exc:
        raise unavailable(redact(url), exc) from exc
    with connection:
        try:
            mark = "&" if "?" in url else "?"
            yield f"{url}{mark}options={quote(f'-csearch_path={name}')}"
        finally:
            connection.execute(f"DROP SCHEMA {name} CASCADE")
