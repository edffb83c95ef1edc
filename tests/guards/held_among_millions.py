"""How long it takes to list what is held among millions of records: `make held-among-millions ARGS='--records 10000000'`.

The records are copies of one that a guarded call made, written by the server itself; the hundred that are held were held by
guarded calls. Listed through the public names.
"""

import argparse
import contextlib
import json
import sqlite3
import statistics
import sys
import tempfile
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path

import psycopg
import redis

from dupeproof import Once
from dupeproof_lab.servers import Postgres, Redis

HELD = 100
ROUNDS = 9
AT_ONCE = 100_000
FILL_REDIS = """
local value = redis.call('GET', KEYS[1])
for number = 1, tonumber(ARGV[1]) do
    local digest = struct.pack('>I8I8', tonumber(ARGV[2]), number)
    redis.call('SET', string.sub(KEYS[1], 1, 5) .. digest, value, 'PX', 86400000)
end
"""


def fill_redis(url: str, records: int) -> None:
    with redis.Redis.from_url(url) as client:
        [key] = [each for each in client.scan_iter(b"dr{*", count=1_000) if client.get(each).startswith(b"d")]
        for batch in range(records // AT_ONCE):
            client.eval(FILL_REDIS, 1, key, AT_ONCE, batch + 1)


def fill_postgres(url: str, records: int) -> None:
    with psycopg.connect(url, autocommit=True) as connection:
        columns = connection.execute(
            "SELECT string_agg(attname, ', ' ORDER BY attnum) FROM pg_attribute "
            "WHERE attrelid = 'dupeproof_records'::regclass AND attnum > 0 AND attname <> 'key'"
        ).fetchone()[0]
        connection.execute(
            f"INSERT INTO dupeproof_records (key, {columns}) SELECT gen_random_uuid(), {columns} "
            f"FROM dupeproof_records, generate_series(1, {records:d}) WHERE state = 'done'"
        )
        connection.execute("VACUUM ANALYZE dupeproof_records")


def fill_sqlite(url: str, records: int) -> None:
    with contextlib.closing(sqlite3.connect(url.removeprefix("sqlite:///"))) as connection, connection:
        table = "dupeproof_records"
        columns = ", ".join(
            name for _, name, *_ in connection.execute(f"PRAGMA table_info({table})") if name != "key"
        )
        connection.execute(
            f"WITH RECURSIVE n(i) AS (SELECT 1 UNION ALL SELECT i + 1 FROM n WHERE i < {records:d}) "
            f"INSERT INTO {table} (key, {columns}) SELECT randomblob(16), {columns} FROM {table}, n WHERE state = 'done'"
        )


@contextmanager
def embedded() -> Iterator[str]:
    with tempfile.TemporaryDirectory() as folder:
        yield f"sqlite:///{Path(folder) / 'dedup.db'}"


@contextmanager
def started(server: type[Postgres] | type[Redis]) -> Iterator[str]:
    with server() as running:
        yield running.url


STORES: dict[str, tuple[Callable[[], contextlib.AbstractContextManager[str]], Callable[[str, int], None]]] = {
    "postgres": (lambda: started(Postgres), fill_postgres),
    "redis": (lambda: started(Redis), fill_redis),
    "sqlite": (embedded, fill_sqlite),
}


def doubt() -> None:
    raise TimeoutError


def measure(url: str, fill: Callable[[str, int], None], records: int) -> dict[str, float]:
    with Once(url, on_error="hold", keep_keys=True) as once:
        once.run("done", int)
        began = time.monotonic()
        fill(url, records)
        filled = time.monotonic() - began
        for number in range(HELD):
            with contextlib.suppress(TimeoutError):
                once.run(f"held-{number}", doubt)
        taken = []
        for _ in range(ROUNDS):
            began = time.monotonic()
            found = [*once.entries("held", limit=HELD + 1)]
            taken.append(time.monotonic() - began)
            assert {each.key for each in found} == {f"held-{number}" for number in range(HELD)}
    return {
        "records": records,
        "filled in": round(filled, 1),
        "first": round(taken[0], 4),
        "median": round(statistics.median(taken), 4),
        "longest": round(max(taken), 4),
    }


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    parser.add_argument("--records", type=int, default=10_000_000)
    parser.add_argument("--store", choices=STORES, action="append")
    options = parser.parse_args()
    slow = False
    for store in options.store or STORES:
        place, fill = STORES[store]
        with place() as url:
            found = measure(url, fill, options.records)
        slow |= found["longest"] > 1.0
        print(json.dumps({"store": store, **found}), flush=True)
    return int(slow)


if __name__ == "__main__":
    sys.exit(main())
