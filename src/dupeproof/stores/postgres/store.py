# Written by tools/twins.py from src/dupeproof/stores/postgres/store_async.py; change that file instead.
"""The store over PostgreSQL: one statement per verb and batch, the server's clock, the schema made on first use."""

import time
from collections.abc import Callable, Iterator, Sequence
from functools import partial
from itertools import count
from random import random
from typing import Any, TypeVar

import psycopg

from dupeproof.core.outcomes import Outcome
from dupeproof.core.records import (
    ClaimRequest,
    Fail,
    Finish,
    Found,
    FoundMark,
    Health,
    Listed,
    Mark,
    Release,
    Renew,
    Sample,
    Stats,
    share_of,
)
from dupeproof.core.sequences import Number, SequenceStats, Verdict
from dupeproof.core.states import State
from dupeproof.errors import StoreUnavailable
from dupeproof.process_local import PerProcess
from dupeproof.stores.postgres import migrations, queries, rows, sequences
from dupeproof.stores.postgres.faults import (
    CONNECTION_LOST,
    NOT_PREPARED,
    ROLLED_BACK,
    SCHEMA_MISSING,
    STOPPED,
    TIMED_OUT,
    unavailable,
)
from dupeproof.stores.postgres.migrate import migrate
from dupeproof.stores.postgres.protocols import Rows, StoreConnection, StorePool
from dupeproof.stores.postgres.queries import PreparedQuery
from dupeproof.stores.postgres.rows import Answer, bigint, uuids_of
from dupeproof.stores.postgres.statements import statement
from dupeproof.stores.postgres.target import Limits
from dupeproof.stores.purge import purge_inbox
from dupeproof.stores.repeats import Repeats
from dupeproof.stores.runtime import sleep

R = TypeVar("R")
T = TypeVar("T")
_TRIES = 5
_PAGE = 10_000
_LONGEST_PAUSE = 0.1
"""Seconds before a batch is sent again that gave way to another."""
_LARGE = 100_000
"""Bytes from which an answer may take its time, although somebody is there."""


def _query(connection: StoreConnection, query: PreparedQuery, parameters: Sequence[bytes]) -> Answer:
    return connection.query(query, parameters)


def _execute_all(connection: StoreConnection, text: str, parameters: Sequence[Any]) -> Rows:
    return connection.execute_all(text, parameters)


def _execute_in_time(connection: StoreConnection, text: str, parameters: Sequence[Any]) -> Rows:
    return connection.execute_in_time(text, parameters)


class PostgresStore:
    """Records and marks in two tables; decisions in versioned functions of the database."""

    def __init__(self, limits: Limits, pools: Callable[[], StorePool]) -> None:
        self._target = limits
        self._pools = PerProcess(pools, _close)
        self._repeats = Repeats()

    def claim(self, requests: Sequence[ClaimRequest]) -> list[Outcome]:
        on_repeat = partial(self._repeats.note, requests)
        if len(requests) == 1:
            [one] = requests
            values = [
                one.key,
                one.token,
                one.fingerprint,
                *rows.terms_values(one.terms),
                one.kept_key.encode(),
            ]
            answer = self._said(_query, queries.CLAIM, values, on_repeat=on_repeat)
            return [rows.outcome_of(answer)]
        requests, order = rows.in_order(requests)
        columns = rows.claim_columns(requests)
        answer = self._said(_query, queries.CLAIM_MANY, columns, on_repeat=on_repeat)
        return rows.outcomes_of(answer, order)

    def finish(self, changes: Sequence[Finish]) -> list[bool]:
        if self._repeats.noted:
            self._repeats.forget(changes)
        # To resolve is not repeated after a lost reply: the second try would find a key that is done.
        repeat = not any(change.resolver for change in changes)
        if len(changes) == 1:
            [one] = changes
            window, codec = bigint(one.window), one.codec.encode()
            values = [one.key, one.token, one.resolver, window, codec, one.result]
            answer = self._said(_query, queries.FINISH, values, repeat=repeat)
            return [answer.get_value(0, 0) == rows.TRUE]
        changes, order = rows.in_order(changes)
        columns = rows.finish_columns(changes)
        answer = self._said(_query, queries.FINISH_MANY, columns, repeat=repeat)
        return rows.answers_of(answer, order)

    def fail(self, changes: Sequence[Fail]) -> list[bool]:
        self._repeats.outlive(changes)
        changes, order = rows.in_order(changes)
        return rows.answers_of(self._said(_query, queries.FAIL, rows.fail_columns(changes)), order)

    def release(self, changes: Sequence[Release]) -> list[bool]:
        self._repeats.outlive(changes)
        # Not repeated after a lost reply: the second try would find that nothing is there to be released.
        changes, order = rows.in_order(changes)
        columns = rows.release_columns(changes)
        return rows.answers_of(self._said(_query, queries.RELEASE, columns, repeat=False), order)

    def renew(self, changes: Sequence[Renew]) -> list[bool]:
        changes, order = rows.in_order(changes)
        return rows.answers_of(self._said(_query, queries.RENEW, rows.renew_columns(changes)), order)

    def get(self, keys: Sequence[bytes]) -> list[Found | None]:
        return rows.found(self._run("get", [[key.hex() for key in keys]]), keys)

    def waiting(self, limit: int) -> list[Listed]:
        return rows.listed(self._run("waiting", [limit]))

    def find(self, digits: str, limit: int) -> list[bytes]:
        bounds = [digits.ljust(32, end) for end in "0f"]
        return [rows.digest(row[0]) for row in self._run("find", [*bounds, limit])]

    def sample(self, limit: int) -> Sample:
        page = self._run("page", [bytes(16).hex(), limit])
        return Sample(rows.listed(page), share_of([rows.digest(row[0]) for row in page], limit))

    def records(self) -> Iterator[list[Listed]]:
        last = bytes(16)
        while page := self._run("page", [last.hex(), _PAGE]):
            yield rows.listed(page)
            last = rows.digest(page[-1][0])

    def forget(self, keys: Sequence[bytes]) -> list[bool]:
        # Not repeated after a lost reply, nor done late: there may be a record by then that nobody wants to forget.
        gone = {rows.digest(row[0]) for row in self._run_in_time("forget", keys)}
        return [key in gone for key in keys]

    def mark(self, marks: Sequence[Mark]) -> list[bool]:
        # Not repeated after a lost reply: the second try would find the first one's mark and call it a duplicate.
        if len(marks) == 1:
            [one] = marks
            values = [one.key, bigint(one.window), one.token, one.meta]
            answer = self._said(_query, queries.MARK, values, repeat=False)
            return [answer.get_value(0, 0) == rows.TRUE]
        first = {mark.key: mark for mark in reversed(marks)}
        columns = rows.mark_columns([first[key] for key in sorted(first)])
        answer = self._said(_query, queries.MARK_MANY, columns, repeat=False)
        new = set(uuids_of(answer.get_value(0, 0)))
        if len(new) == len(marks):
            return [True] * len(marks)
        answers = []
        for mark in marks:
            answers.append(mark.key in new)
            new.discard(mark.key)
        return answers

    def unmark(self, marks: Sequence[Mark]) -> list[bool]:
        # Not repeated after a lost reply, as a release is not.
        columns = [[mark.key.hex() for mark in marks], [mark.token for mark in marks]]
        gone = {rows.digest(row[0]) for row in self._run("unmark", columns, repeat=False)}
        return [mark.key in gone for mark in marks]

    def marks(self, keys: Sequence[bytes]) -> list[FoundMark | None]:
        return rows.found_marks(self._run("marks", [[key.hex() for key in keys]]), keys)

    def advance(self, numbers: Sequence[Number]) -> list[Verdict]:
        # Not repeated after a lost reply: the second try would find the first one's numbers and call them duplicates.
        return self._said(_advanced, numbers, (), repeat=False) if numbers else []

    def retire(self, keys: Sequence[bytes]) -> list[bool]:
        gone = {rows.digest(row[0]) for row in self._run_in_time("retire", keys)}
        return [key in gone for key in keys]

    def sequences(self) -> SequenceStats:
        [(producers, size)] = self._run("count_sequences")
        return SequenceStats(producers=producers, bytes=size)

    def purge(self, limit: int) -> int:
        [(gone,)] = self._run("purge_marks", [limit])
        if gone < limit:
            gone += self._said(_inbox_purged, limit - gone, ())
        if gone < limit:
            [(removed,)] = self._run("purge_records", [limit - gone])
            gone += removed
        return int(gone)

    def stats(self) -> Stats:
        records: dict[str, int] = dict(self._run("count_records"))
        [(live, marks, size)] = self._run("count_marks")
        [(inbox, all_inbox, inbox_size)] = self._run("count_inbox")
        expired = records.pop(State.FREE, 0) + marks - live + all_inbox - inbox
        return Stats(marks=live, records=records, expired=expired, inbox=inbox, bytes=size + inbox_size)

    def check(self) -> Health:
        self.get([])
        [(version, synchronous_commit, standby, writable)] = self._run("check")
        if standby or not writable:
            why = (
                "is read-only; point the URL at the primary"
                if standby
                else "does not let this user write its tables; let an owner run what "
                "`dupeproof schema URL --grants USER` prints"
            )
            raise StoreUnavailable(f"PostgreSQL at {self._target.shown} {why}")
        return Health(store="postgresql", version=version, details={"synchronous_commit": synchronous_commit})

    def schema(self) -> str:
        return migrations.schema()

    def migrate(self) -> list[int]:
        """Bring the schema up to date; the versions that were applied now."""
        try:
            return self._migrate()
        except (psycopg.Error, OSError) as exc:
            raise unavailable(self._target.shown, exc) from exc

    def close(self) -> None:
        pool = self._pools.take()
        if pool is not None:
            pool.close()

    def _migrate(self) -> list[int]:
        pool = self._pools.get()
        connection = pool.take(self._deadline())

        def begin() -> None:
            # Each step has the whole time: others may be making the schema, one after the other.
            connection.deadline = self._deadline()

        try:
            return migrate(connection.adapted, begin)
        finally:
            pool.give(connection)

    def _deadline(self) -> float:
        return time.monotonic() + self._target.timeout

    def _run(self, name: str, parameters: Sequence[Any] = (), *, repeat: bool = True) -> Rows:
        return self._said(_execute_all, statement(name), parameters, repeat=repeat)

    def _run_in_time(self, name: str, keys: Sequence[bytes]) -> Rows:
        named = [[key.hex() for key in keys]]
        return self._said(_execute_in_time, statement(name), named, repeat=False)

    def _said(
        self,
        say: Callable[[StoreConnection, T, Sequence[Any]], R],
        what: T,
        parameters: Sequence[Any],
        *,
        repeat: bool = True,
        on_repeat: Callable[[float], None] | None = None,
    ) -> R:
        """The answer, within the time allowed.

        `on_repeat` is called before it is said again although it may have been, or may yet be, carried out until then.

        What may be repeated and is answered at once, where there is somebody, is given up after half of that time on a
        connection from before, and said again on a new one: the old one may have been dropped without a word.
        """
        deadline = time.monotonic() + self._target.timeout
        try:
            for tries in count(1):
                pool = self._pools.get()
                try:
                    connection = pool.take(deadline)
                    if (
                        repeat
                        and tries == 1
                        and connection.heard
                        and say is _query
                        and len(parameters[0]) + len(parameters[-1]) < _LARGE  # keys and results
                    ):
                        connection.deadline -= self._target.timeout / 2
                    try:
                        return say(connection, what, parameters)
                    except STOPPED:
                        connection.checked = (
                            0.0  # it is too late by the server's clock, unless we know that wrong
                        )
                        raise
                    finally:
                        pool.give(connection)
                except SCHEMA_MISSING:
                    if tries >= _TRIES:
                        raise
                    self._migrate()
                    deadline = self._deadline()
                except NOT_PREPARED:
                    pool.prepares = False
                    if tries >= _TRIES:
                        raise
                except TIMED_OUT:
                    if not repeat or time.monotonic() >= deadline:
                        raise
                    if on_repeat is not None:
                        on_repeat(deadline)
                except STOPPED:
                    if tries >= _TRIES or time.monotonic() >= deadline - self._target.margin:
                        raise
                except ROLLED_BACK:
                    # Nothing was done, and whoever was in the way is moving: there is no reason to give up early.
                    pause = random() * min(_LONGEST_PAUSE, 0.001 * 2**tries)  # noqa: S311 - so that two do not meet again
                    if time.monotonic() + pause >= deadline - self._target.margin:
                        raise
                    sleep(pause)
                except CONNECTION_LOST:
                    # Once more, on a new connection: the server may have been restarted since the last call.
                    if not repeat or tries > 1:
                        raise
                    if on_repeat is not None:
                        on_repeat(deadline)
        except (psycopg.Error, OSError) as exc:
            raise unavailable(self._target.shown, exc) from exc
        raise AssertionError


def _close(pool: StorePool) -> None:
    pool.close()


def _inbox_purged(connection: StoreConnection, limit: int, _: Sequence[Any]) -> int:
    adapted = connection.adapted
    with adapted.transaction():
        return purge_inbox(adapted, limit)


def _advanced(connection: StoreConnection, numbers: Sequence[Number], _: Sequence[Any]) -> list[Verdict]:
    adapted = connection.adapted
    while True:
        with connection.transaction_in_time():
            verdicts = sequences.advance_known(adapted, numbers)
        if verdicts is not None:
            return verdicts
        sequences.make(adapted, numbers)
