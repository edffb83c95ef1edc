# Written by tools/twins.py from src/dupeproof/stores/postgres/_async/store.py; change that file instead.
"""The store over PostgreSQL: one statement per verb and batch, the server's clock, the schema made on first use."""

import time
from collections.abc import Callable, Sequence
from typing import Any, TypeVar

from dupeproof.core.outcomes import Outcome
from dupeproof.core.records import (
    ClaimRequest,
    Fail,
    Finish,
    Found,
    FoundMark,
    Health,
    Mark,
    Release,
    Renew,
    Stats,
)
from dupeproof.core.sequences import Number, SequenceStats, Verdict
from dupeproof.core.states import State
from dupeproof.errors import StoreUnavailable
from dupeproof.stores._sync.runtime import PerHome
from dupeproof.stores.postgres import migrations, rows
from dupeproof.stores.postgres._sync import sequences
from dupeproof.stores.postgres._sync.migrating import migrate
from dupeproof.stores.postgres._sync.pool import Bounded, Pool, execute
from dupeproof.stores.postgres.faults import (
    CONNECTION_LOST,
    ROLLED_BACK,
    SCHEMA_MISSING,
    TIMED_OUT,
    translated,
)
from dupeproof.stores.postgres.statements import statement
from dupeproof.stores.postgres.target import Target

R = TypeVar("R")
_TRIES = 5


class PostgresStore:
    """Records and marks in two tables; decisions in versioned functions of the database."""

    def __init__(self, target: Target) -> None:
        self._target = target
        self._pools = PerHome(lambda: Pool(target), Pool.close)

    def claim(self, requests: Sequence[ClaimRequest]) -> list[Outcome]:
        return rows.outcomes_of(self._run("claim", rows.claim_columns(requests)))

    def finish(self, changes: Sequence[Finish]) -> list[bool]:
        return rows.answers_of(self._run("finish", rows.finish_columns(changes)))

    def fail(self, changes: Sequence[Fail]) -> list[bool]:
        return rows.answers_of(self._run("fail", rows.fail_columns(changes)))

    def release(self, changes: Sequence[Release]) -> list[bool]:
        return rows.answers_of(self._run("release", rows.release_columns(changes)))

    def renew(self, changes: Sequence[Renew]) -> list[bool]:
        return rows.answers_of(self._run("renew", rows.renew_columns(changes)))

    def get(self, keys: Sequence[bytes]) -> list[Found | None]:
        return rows.found(self._run("get", [[key.hex() for key in keys]]), keys)

    def forget(self, keys: Sequence[bytes]) -> list[bool]:
        gone = {row[0].bytes for row in self._run("forget", [[key.hex() for key in keys]])}
        return [key in gone for key in keys]

    def mark(self, marks: Sequence[Mark]) -> list[bool]:
        first = list({mark.key: mark for mark in reversed(marks)}.values())
        # Not repeated after a lost reply: the second try would find the first one's mark and call it a duplicate.
        new = {row[0].bytes for row in self._run("mark", rows.mark_columns(first), repeat=False)}
        answers = []
        for mark in marks:
            answers.append(mark.key in new)
            new.discard(mark.key)
        return answers

    def unmark(self, marks: Sequence[Mark]) -> list[bool]:
        columns = [rows.keys_of(marks), [mark.token for mark in marks]]
        gone = {row[0].bytes for row in self._run("unmark", columns)}
        return [mark.key in gone for mark in marks]

    def marks(self, keys: Sequence[bytes]) -> list[FoundMark | None]:
        return rows.found_marks(self._run("marks", [[key.hex() for key in keys]]), keys)

    def advance(self, numbers: Sequence[Number]) -> list[Verdict]:
        def decided(connection: Bounded) -> list[Verdict]:
            with connection.transaction():
                return sequences.advance(connection, numbers)

        # Not repeated after a lost reply, for the same reason as a mark.
        return self._tried(decided, repeat=False) if numbers else []

    def retire(self, keys: Sequence[bytes]) -> list[bool]:
        gone = {row[0].bytes for row in self._run("retire", [[key.hex() for key in keys]])}
        return [key in gone for key in keys]

    def sequences(self) -> SequenceStats:
        [(producers, size)] = self._run("count_sequences")
        return SequenceStats(producers=producers, bytes=size)

    def purge(self, limit: int) -> int:
        [(marks,)] = self._run("purge_marks", [limit])
        if marks == limit:
            return limit
        [(records,)] = self._run("purge_records", [limit - marks])
        return int(marks + records)

    def stats(self) -> Stats:
        records: dict[str, int] = dict(self._run("count_records"))
        [(live, marks, size)] = self._run("count_marks")
        expired = records.pop(State.FREE, 0) + marks - live
        return Stats(marks=live, records=records, expired=expired, bytes=size)

    def check(self) -> Health:
        self.get([])
        [(version, synchronous_commit, standby, writable)] = self._run("check")
        if standby or not writable:
            why = (
                "is read-only; point the URL at the primary"
                if standby
                else "does not let this user write its tables"
            )
            raise StoreUnavailable(f"PostgreSQL at {self._target.shown} {why}")
        return Health(store="postgresql", version=version, details={"synchronous_commit": synchronous_commit})

    def schema(self) -> str:
        return migrations.schema()

    def migrate(self) -> list[int]:
        """Bring the schema up to date; the versions that were applied now."""
        with translated(self._target.shown):
            # Each statement has the whole time: others may be making the schema, one after the other.
            with self._pools.get().connection(self._target.timeout) as connection:
                connection.limit = self._target.timeout
                return migrate(connection)

    def close(self) -> None:
        pool = self._pools.take()
        if pool is not None:
            pool.close()

    def _run(
        self, name: str, parameters: Sequence[Any] = (), *, repeat: bool = True
    ) -> list[tuple[Any, ...]]:
        def executed(connection: Bounded) -> list[tuple[Any, ...]]:
            return execute(connection, statement(name), parameters)

        return self._tried(executed, repeat=repeat)

    def _tried(self, work: Callable[[Bounded], R], *, repeat: bool) -> R:
        deadline = time.monotonic() + self._target.timeout
        with translated(self._target.shown):
            for tries in range(1, _TRIES + 1):
                try:
                    with self._pools.get().connection(deadline - time.monotonic()) as connection:
                        return work(connection)
                except SCHEMA_MISSING:
                    if tries == _TRIES:
                        raise
                    self.migrate()
                    deadline = time.monotonic() + self._target.timeout
                except TIMED_OUT:
                    raise
                except ROLLED_BACK:
                    if tries == _TRIES:
                        raise
                except CONNECTION_LOST:
                    # Once more, on a new connection: the server may have been restarted since the last call.
                    if not repeat or tries > 1:
                        raise
            raise AssertionError
