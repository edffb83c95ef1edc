"""PostgreSQL: does it keep what it says it has committed, and can it clean up."""

from collections.abc import Iterator

from dupeproof.core.durations import about
from dupeproof.doctor.common import judge_clock, judge_latency, judge_outbox, judge_purge
from dupeproof.doctor.findings import Finding, error, note, warning
from dupeproof.doctor.postgres_facts import Facts, look
from dupeproof.stores.postgres.migrations import migrations

__all__ = ["judge", "look"]
_LONG_TRANSACTION = 300.0


def judge(facts: Facts) -> Iterator[Finding]:
    yield from _judge_durability(facts)
    yield from _judge_tables(facts)
    yield from _judge_sessions(facts)
    yield from judge_purge(facts.expired, facts.oldest_expired)
    yield from judge_outbox(facts.backlog, facts.oldest_message, facts.dead_messages)
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
