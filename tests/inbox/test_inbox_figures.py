"""What marking costs beside a plain insert, and what a purge costs those who mark meanwhile: printed (`pytest -rP`).

A busy machine fails nothing here; what is asserted is what was done. `make figures` is the long version.
"""

import asyncio
import contextlib
import os
import sqlite3
import statistics
import subprocess
import sys
import time
import uuid
from pathlib import Path

import psycopg
import psycopg_pool
import pytest
import sqlalchemy

from dupeproof import Inbox
from dupeproof.stores import open_store
from support.places import engine_url, kinds, sqlite_path

EXPIRED = int(os.environ.get("INBOX_EXPIRED", "20000"))
ROUNDS = int(os.environ.get("INBOX_ROUNDS", "5"))
SECONDS = float(os.environ.get("INBOX_SECONDS", "0.3"))
MARKED = int(os.environ.get("INBOX_MARKED", "200"))
FILL = {
    "postgresql": "INSERT INTO dupeproof_inbox (key, seen_at, expires_at) SELECT gen_random_uuid(), at, at"
    " FROM (SELECT now() - interval '1 d' - n * interval '1 ms' AS at FROM generate_series(1, {0}) AS n) AS times",
    "sqlite": "INSERT INTO dupeproof_inbox (key, seen_at, expires_at) WITH RECURSIVE numbers (n) AS"
    " (SELECT 1 UNION ALL SELECT n + 1 FROM numbers WHERE n < {0}) SELECT randomblob(16), n, n FROM numbers",
}
PLAIN = {
    "postgresql": "CREATE TABLE plain (id uuid PRIMARY KEY, seen_at timestamptz NOT NULL, expires_at timestamptz NOT NULL)",
    "sqlite": "CREATE TABLE plain (id BLOB NOT NULL PRIMARY KEY, seen_at INTEGER NOT NULL, expires_at INTEGER NOT NULL)"
    " WITHOUT ROWID",
}
INSERT = {
    "postgresql": "INSERT INTO plain VALUES (%s, now(), now() + interval '1 d')",
    "sqlite": "INSERT INTO plain VALUES (?, unixepoch(), unixepoch() + 86400)",
}


def connect(place):
    if place.dialect == "sqlite":
        connection = sqlite3.connect(sqlite_path(place.url), timeout=20)
        connection.execute("PRAGMA synchronous = FULL")
        return contextlib.closing(connection)
    return psycopg.connect(place.url)


def prepared(place):
    asyncio.run(place.make_schema())
    if place.dialect == "sqlite":
        place.sql("PRAGMA journal_mode = WAL")


def spread(figures, unit=""):
    return f"{statistics.median(figures):,.2f}{unit} ({min(figures):,.2f} to {max(figures):,.2f})"


@kinds("sqlite3", "psycopg")
def test_marking_is_measured_beside_a_plain_insert(place):
    prepared(place)
    place.sql(PLAIN[place.dialect], "CREATE INDEX plain_expiry ON plain (expires_at)")
    inbox = place.inbox()
    ids = iter(uuid.uuid4, None)

    with connect(place) as connection:

        def seconds(work):
            began = time.perf_counter()
            for _ in range(MARKED):
                work(next(ids))
                connection.commit()
            return time.perf_counter() - began

        def plain(each):
            value = each if place.dialect == "postgresql" else each.bytes
            connection.execute(INSERT[place.dialect], (value,))

        def marking(each):
            assert inbox.first(connection, each)

        seconds(marking), seconds(plain)
        ratios = [seconds(marking) / seconds(plain) for _ in range(ROUNDS)]
        assert place.sql("SELECT count(*) FROM dupeproof_inbox") == [((ROUNDS + 1) * MARKED,)]
    print(f"{place.dialect}: a mark with its commit costs {spread(ratios)} times a plain insert with one")


@kinds("sqlite3", "psycopg")
@pytest.mark.timeout(900)
def test_marking_is_measured_while_expired_marks_are_purged(place):
    prepared(place)
    place.sql(FILL[place.dialect].format(EXPIRED))
    inbox = place.inbox()
    purging = subprocess.Popen(
        [sys.executable, Path(__file__).with_name("inbox_purger.py"), place.url],
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        text=True,
    )
    quiet, busy, longest, faster, rates, marked, removed = [], [], [], [], [], 0, 0

    def switch():
        purging.stdin.write("\n")
        purging.stdin.flush()

    def latencies():
        """Of marks with their commits, for a while."""
        found = []
        began = now = time.perf_counter()
        while now - began < SECONDS:
            assert inbox.first(connection, uuid.uuid4())
            connection.commit()
            before, now = now, time.perf_counter()
            found.append(now - before)
        return sorted(found)

    def p99(found):
        return found[int(len(found) * 0.99)] * 1_000

    with connect(place) as connection:
        marked += len(latencies())
        for _ in range(ROUNDS):
            alone = latencies()
            switch()
            beside = latencies()
            switch()
            gone, seconds = map(float, purging.stdout.readline().split())
            quiet.append(p99(alone))
            busy.append(p99(beside))
            longest.append(beside[-1] * 1_000)
            rates.append(gone / seconds)
            faster.append(gone / seconds / (len(beside) / SECONDS))
            marked += len(alone) + len(beside)
            removed += int(gone)
    purging.stdin.close()
    assert purging.wait(60) == 0
    purging.stdout.close()
    store = open_store(place.url)
    left = store.stats()
    store.close()
    assert (left.inbox, left.expired) == (marked, EXPIRED - removed)
    assert removed > 0
    worse = [b / q for b, q in zip(busy, quiet, strict=True)]
    print(
        f"{place.dialect}, {EXPIRED:,} expired: p99 of a mark {spread(quiet, ' ms')} alone, {spread(busy, ' ms')} beside a "
        f"purge, {spread(worse)} times, at most {spread(longest, ' ms')}; purged {spread(rates)} a second, {spread(faster)} times as many as were marked"
    )


POOLS = {
    "postgresql": lambda url: psycopg_pool.ConnectionPool(url, min_size=1, open=True),
    "mysql": lambda url: sqlalchemy.create_engine(engine_url(url, "pymysql")),
    "sqlite": lambda url: sqlalchemy.create_engine(engine_url(url, "pysqlite")),
}


@kinds("psycopg", "sqlalchemy pymysql", "sqlite3")
def test_an_inbox_by_url_is_measured_beside_one_with_a_pool(place):
    """One mark in its transaction, in turns. A connection for each transaction would cost about ten times as much."""
    prepared(place)
    pool = POOLS[place.dialect](place.url)
    by_url, pooled = Inbox("by-url", database=place.url), Inbox("pooled", database=pool)

    def seconds(inbox):
        began = time.perf_counter()
        with inbox.transaction() as connection:
            assert inbox.first(connection, uuid.uuid4())
        return time.perf_counter() - began

    for _ in range(10):
        seconds(by_url), seconds(pooled)
    medians = []
    for _ in range(ROUNDS):
        pairs = [(seconds(by_url), seconds(pooled)) for _ in range(MARKED)]
        medians.append([statistics.median(each) for each in zip(*pairs, strict=True)])
    assert place.sql("SELECT count(*) FROM dupeproof_inbox") == [(2 * (10 + ROUNDS * MARKED),)]
    by_url.close()
    pool.close() if place.dialect == "postgresql" else pool.dispose()
    ratios = [mine / theirs for mine, theirs in medians]
    mine, theirs = (statistics.median(each) * 1_000 for each in zip(*medians, strict=True))
    print(f"{place.dialect}: by URL {mine:.2f} ms, pooled {theirs:.2f} ms, {spread(ratios)} times")
    assert statistics.median(ratios) < 3
