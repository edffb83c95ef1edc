"""PostgreSQL: what the doctor asks it, and what the answers mean. Does it keep what it says it has committed, and can it clean up?"""

import statistics
import time
from collections.abc import Iterator
from typing import Any, cast

import psycopg
from msgspec import Struct
from psycopg.rows import dict_row

from dupeproof.core.durations import about
from dupeproof.doctor.common import judge_clock, judge_latency, judge_outbox, judge_purge, judge_waiting
from dupeproof.doctor.findings import Finding, error, note, warning
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
        (SELECT expires_at FROM dupeproof_entities WHERE expires_at <= clock_timestamp() ORDER BY expires_at LIMIT 100000)
        UNION ALL
        (SELECT expires_at FROM dupeproof_records WHERE purge_from <= clock_timestamp() AND expires_at <= clock_timestamp()
         LIMIT 100000)
    ) AS expired
"""
_OUTBOX = """
    SELECT count(*) AS backlog,
           extract(epoch FROM clock_timestamp() - min(coalesce(not_before, created_at)))::float8 AS oldest,
           (SELECT count(*) FROM dupeproof_outbox_dead) AS dead,
           (SELECT extract(epoch FROM clock_timestamp() - max(lease_until))::float8
            FROM dupeproof_outbox_shards WHERE isfinite(lease_until)) AS relay_seen
    FROM dupeproof_outbox WHERE coalesce(not_before, created_at) <= clock_timestamp()
"""
_WAITING = """
    SELECT count(*) FILTER (WHERE state = 'dead') AS dead, count(*) FILTER (WHERE state <> 'dead') AS held,
           extract(epoch FROM clock_timestamp() - min(lease_until) FILTER (WHERE state <> 'dead'))::float8 AS oldest
    FROM dupeproof_records
    WHERE purge_from = 'infinity' AND expires_at = 'infinity'
          AND (state = 'dead' OR (state = 'running' AND hold AND lease_until <= clock_timestamp()))
"""
"""By the index on purge_from, as `dupeproof list` finds them."""
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
    """Sessions of others, which this user may not see."""
    expired: int
    oldest_expired: float | None
    backlog: int
    oldest_message: float | None
    dead_messages: int
    relay_seen: float | None
    """Seconds since a relay had messages in its hands."""
    held: int
    oldest_held: float | None
    dead_keys: int
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
    [outbox] = _optional(connection, _OUTBOX) or [
        {"backlog": 0, "oldest": None, "dead": 0, "relay_seen": None}
    ]
    [waiting] = _optional(connection, _WAITING) or [{"held": 0, "oldest": None, "dead": 0}]
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
        relay_seen=outbox["relay_seen"],
        held=waiting["held"],
        oldest_held=waiting["oldest"],
        dead_keys=waiting["dead"],
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


__all__ = ["judge", "look"]
_LONG_TRANSACTION = 300.0


def judge(facts: Facts) -> Iterator[Finding]:
    yield from _judge_durability(facts)
    yield from _judge_tables(facts)
    yield from _judge_sessions(facts)
    yield from judge_purge(facts.expired, facts.oldest_expired)
    yield from judge_waiting(facts.held, facts.oldest_held, facts.dead_keys)
    yield from judge_outbox(facts.backlog, facts.oldest_message, facts.dead_messages, facts.relay_seen)
    yield from judge_latency(facts.latency)
    yield from judge_clock(facts.clock_apart)


def _judge_durability(facts: Facts) -> Iterator[Finding]:
    if not facts.fsync or not facts.full_page_writes:
        yield error(
            "fsync",
            f"fsync is {_on(facts.fsync)}, full_page_writes is {_on(facts.full_page_writes)}",
            "after a crash of the machine the database may be damaged, not only behind",
            "set both to on in postgresql.conf",
        )
    if facts.synchronous_commit in ("off", "local"):
        say = error if facts.synchronous_commit == "off" else warning
        yield say(
            "synchronous-commit",
            f"synchronous_commit is {facts.synchronous_commit}",
            "a commit that was answered can be lost in a crash, and what it stood for happens again"
            if facts.synchronous_commit == "off"
            else "a commit that was answered may be missing on the standby that takes over",
            f"ALTER ROLE {{user}} SET synchronous_commit = on{'' if facts.synchronous_commit == 'off' else ' (with synchronous standbys)'}",
        )
    if facts.standby:
        yield error(
            "standby", "this server is a standby", "it takes no writes", "point the URL at the primary"
        )


def _judge_tables(facts: Facts) -> Iterator[Finding]:
    known = {each.version for each in migrations()}
    if facts.schema is None:
        yield note(
            "no-tables",
            "there are no tables of dupeproof yet",
            "they are made on first use, by a user who may create tables",
            "dupeproof schema URL --apply, as the owner of the schema",
        )
    elif missing := known - set(facts.schema):
        yield warning(
            "old-tables",
            f"the tables are of an older version; missing: {', '.join(map(str, sorted(missing)))}",
            "they are brought up to date on first use, by a user who may; one who may not gets an error then",
            "dupeproof schema URL --apply, as the owner of the schema",
        )
    elif newer := set(facts.schema) - known:
        yield warning(
            "newer-tables",
            f"the tables were changed by a newer version: {', '.join(map(str, sorted(newer)))}",
            "an older program goes on working with functions of its own version, and is not tested with these",
            "update this installation of dupeproof",
        )
    if facts.missing:
        yield error(
            "missing-tables",
            f"there were more tables; missing: {', '.join(facts.missing)}",
            "calls that need them fail, and nothing makes them again: the migration that did counts as applied",
            "restore them from a backup; or, if all may be forgotten, drop every table whose name begins with dupeproof_, and "
            "dupeproof schema URL --apply",
        )
    for name, (live, dead) in facts.bloated.items():
        yield warning(
            "bloat",
            f"{name} has {dead:,} dead rows beside {live:,} live ones",
            "every look at it reads past them",
            f"VACUUM {name}; then see why autovacuum does not keep up (a long transaction, or its settings)",
        )
    if not facts.autovacuum:
        yield warning(
            "autovacuum",
            "autovacuum is off",
            "rows that were purged keep their place, so tables grow although they are emptied",
            "set autovacuum = on",
        )


def _judge_sessions(facts: Facts) -> Iterator[Finding]:
    if not facts.transactions:
        yield error(
            "statement-pooling",
            "a pooler in between lends connections for one statement at a time",
            "claims survive that, but inbox and outbox live in your transaction, and there is none",
            "set pool_mode = transaction (or session) in the pooler",
        )
    if facts.longest_transaction > _LONG_TRANSACTION:
        yield warning(
            "long-transaction",
            f"a transaction has been open for {about(int(facts.longest_transaction * 1_000))}",
            "nothing that was deleted since can be cleaned up, in any table of this database",
            "find it in pg_stat_activity (xact_start, backend_xmin, backend_xid) or pg_prepared_xacts, end it, and set "
            "idle_in_transaction_session_timeout",
        )
    if facts.unseen:
        yield note(
            "unseen-sessions",
            f"{facts.unseen} sessions of other users could not be looked at",
            "a transaction that holds back cleaning may be among them",
            "GRANT pg_read_all_stats to this user, or run the doctor as one who has it",
        )
    if facts.lock_timeout == "0":
        yield note(
            "lock-timeout",
            "lock_timeout is not set",
            "a second consumer with the same message waits for the first one's transaction, however long that is",
            "SET LOCAL lock_timeout = '5s' in the transactions of consumers; inbox.first then raises RetryTransaction",
        )


def _on(value: bool) -> str:
    return "on" if value else "off"
