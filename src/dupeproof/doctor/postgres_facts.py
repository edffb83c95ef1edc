"""What the doctor asks a PostgreSQL."""

import statistics
import time
from typing import Any, cast

import psycopg
from msgspec import Struct
from psycopg.rows import dict_row

from dupeproof.stores.postgres.faults import unavailable
from dupeproof.stores.postgres.migrations import migrations
from dupeproof.stores.postgres.target import Target, plain_connection, target
from dupeproof.stores.urls import StoreURL

Connection = psycopg.Connection[dict[str, Any]]
_PINGS = 7
_BLOATED_FROM_ROWS = 10_000
_SETTINGS = """
    SELECT current_setting('server_version') AS version, current_setting('synchronous_commit') AS synchronous_commit,
           current_setting('fsync') AS fsync, current_setting('full_page_writes') AS full_page_writes,
           current_setting('lock_timeout') AS lock_timeout, current_setting('autovacuum') AS autovacuum,
           pg_is_in_recovery() AS standby
"""
_LONGEST = """
    SELECT coalesce(extract(epoch FROM max(clock_timestamp() - began)), 0)::float8 AS seconds
    FROM (
        SELECT xact_start AS began FROM pg_stat_activity
        WHERE datname = current_database() AND pid <> pg_backend_pid() AND backend_type = 'client backend'
              AND (backend_xmin IS NOT NULL OR backend_xid IS NOT NULL)
        UNION ALL
        SELECT prepared FROM pg_prepared_xacts WHERE database = current_database()
    ) AS open
"""
"""Those that read with a snapshot, those that have written, and those that were prepared: each holds back cleaning."""
_UNSEEN = """
    SELECT count(*) AS sessions FROM pg_stat_activity
    WHERE datname = current_database() AND query = '<insufficient privilege>'
"""
_VERSIONS = "SELECT version FROM dupeproof_migrations"
_MISSING = "SELECT name FROM unnest(%s::text[]) AS name WHERE to_regclass(name) IS NULL"
_TABLES = """
    SELECT relname, n_live_tup AS live, n_dead_tup AS dead FROM pg_stat_user_tables
    WHERE relname LIKE 'dupeproof%' AND schemaname = ANY (current_schemas(false))
"""
_EXPIRED = """
    SELECT count(*) AS rows, extract(epoch FROM clock_timestamp() - min(expires_at))::float8 AS oldest
    FROM (
        (SELECT expires_at FROM dupeproof_marks WHERE expires_at <= clock_timestamp() ORDER BY expires_at LIMIT 100000)
        UNION ALL
        (SELECT expires_at FROM dupeproof_inbox WHERE expires_at <= clock_timestamp() ORDER BY expires_at LIMIT 100000)
        UNION ALL
        (SELECT expires_at FROM dupeproof_records WHERE purge_from <= clock_timestamp() AND expires_at <= clock_timestamp()
         LIMIT 100000)
    ) AS expired
"""
_OUTBOX = """
    SELECT count(*) AS backlog,
           extract(epoch FROM clock_timestamp() - min(coalesce(not_before, created_at)))::float8 AS oldest,
           (SELECT count(*) FROM dupeproof_outbox_dead) AS dead
    FROM dupeproof_outbox WHERE coalesce(not_before, created_at) <= clock_timestamp()
"""
_WINDOWS = "SELECT consumer_group, milliseconds FROM dupeproof_windows"
_STATEMENT_POOLING = "statement pooling"


class Facts(Struct, frozen=True, kw_only=True):
    version: str
    synchronous_commit: str
    fsync: bool
    full_page_writes: bool
    autovacuum: bool
    lock_timeout: str
    standby: bool
    schema: list[int] | None
    """Versions of the migrations that were applied; None where there are none of our tables."""
    missing: list[str]
    """Tables that were made, and are gone."""
    bloated: dict[str, tuple[int, int]]
    """Live and dead rows of tables with more dead than live ones."""
    longest_transaction: float
    unseen: int
    """Sessions of others, of which this user is told nothing."""
    expired: int
    oldest_expired: float | None
    backlog: int
    oldest_message: float | None
    dead_messages: int
    windows: dict[str, int]
    latency: float
    clock_apart: float
    transactions: bool
    """False behind a pooler that lends a connection for one statement only."""


def look(url: StoreURL) -> Facts:
    wanted = target(url)
    try:
        transactions = _has_transactions(wanted)
        with _connected(wanted) as connection:
            return _facts(connection, transactions=transactions)
    except psycopg.Error as exc:
        raise unavailable(wanted.shown, exc) from exc


def _connected(wanted: Target) -> Connection:
    connection: Any = plain_connection(wanted)
    connection.row_factory = dict_row
    return cast("Connection", connection)


def _has_transactions(wanted: Target) -> bool:
    """Tried on a connection of its own: a pooler that has none cuts it."""
    try:
        with _connected(wanted) as connection, connection.transaction():
            connection.execute("SELECT 1")
    except psycopg.Error as exc:
        if _STATEMENT_POOLING not in str(exc):
            raise
        return False
    return True


def _facts(connection: Connection, *, transactions: bool) -> Facts:
    [settings] = connection.execute(_SETTINGS).fetchall()
    [longest] = connection.execute(_LONGEST).fetchall()
    [unseen] = connection.execute(_UNSEEN).fetchall()
    tables = connection.execute(_TABLES).fetchall()
    schema = [row["version"] for row in _optional(connection, _VERSIONS)] or None
    made = [name for each in migrations() if each.version in (schema or ()) for name in each.tables]
    [expired] = _optional(connection, _EXPIRED) or [{"rows": 0, "oldest": None}]
    [outbox] = _optional(connection, _OUTBOX) or [{"backlog": 0, "oldest": None, "dead": 0}]
    latency, apart = _timed(connection)
    return Facts(
        version=settings["version"],
        synchronous_commit=settings["synchronous_commit"],
        fsync=settings["fsync"] == "on",
        full_page_writes=settings["full_page_writes"] == "on",
        autovacuum=settings["autovacuum"] == "on",
        lock_timeout=settings["lock_timeout"],
        standby=settings["standby"],
        schema=schema,
        missing=[row["name"] for row in connection.execute(_MISSING, [made]).fetchall()],
        bloated={
            row["relname"]: (row["live"], row["dead"])
            for row in tables
            if row["dead"] > max(_BLOATED_FROM_ROWS, row["live"])
        },
        longest_transaction=longest["seconds"],
        unseen=unseen["sessions"],
        expired=expired["rows"],
        oldest_expired=expired["oldest"],
        backlog=outbox["backlog"],
        oldest_message=outbox["oldest"],
        dead_messages=outbox["dead"],
        windows={row["consumer_group"]: row["milliseconds"] for row in _optional(connection, _WINDOWS)},
        latency=latency,
        clock_apart=apart,
        transactions=transactions,
    )


def _optional(connection: Connection, statement: str) -> list[dict[str, Any]]:
    """Nothing, where a table is not there."""
    try:
        return connection.execute(statement).fetchall()
    except psycopg.errors.UndefinedTable:
        return []


def _timed(connection: Connection) -> tuple[float, float]:
    taken, apart = [], []
    for _ in range(_PINGS):
        wall, began = time.time(), time.perf_counter()
        [row] = connection.execute("SELECT extract(epoch FROM clock_timestamp())::float8 AS now").fetchall()
        took = time.perf_counter() - began
        taken.append(took * 1_000)
        apart.append(row["now"] - (wall + took / 2))
    return statistics.median(taken), statistics.median(apart)
