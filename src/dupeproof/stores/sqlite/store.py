# No twin: one file serves both, and tasks have it written for them by hand.
"""The store over SQLite: read, decide in Python, write, in one immediate transaction per batch."""

import sqlite3
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path
from typing import TypeVar

from dupeproof.core import decisions
from dupeproof.core.clock import Clock, system_clock
from dupeproof.core.outcomes import Outcome, Won
from dupeproof.core.records import (
    ClaimRequest,
    Fail,
    Finish,
    Found,
    FoundMark,
    Health,
    Listed,
    Mark,
    Record,
    Release,
    Renew,
    Sample,
    Stats,
    share_of,
)
from dupeproof.core.sequences import Number, SequenceStats, Verdict
from dupeproof.core.states import State
from dupeproof.sql.sqlite import Sqlite
from dupeproof.stores.purge import purge_inbox
from dupeproof.stores.sqlite import rows, sequences
from dupeproof.stores.sqlite.connection import SCHEMA, Database, is_busy, transaction

Change = TypeVar("Change", Finish, Fail, Release, Renew)
_FIRST = Won(1)
_PAGE = 1_000

_READ_MARK = "SELECT meta, expires_at, token FROM dupeproof_marks WHERE key = ? AND expires_at > ?"
_MARK = (
    "INSERT INTO dupeproof_marks (key, expires_at, token, meta) VALUES (?, ?, ?, ?) "
    "ON CONFLICT (key) DO UPDATE SET expires_at = excluded.expires_at, token = excluded.token, meta = excluded.meta "
    "WHERE dupeproof_marks.expires_at <= ?"
)
_UNMARK = "DELETE FROM dupeproof_marks WHERE key = ? AND token = ? AND token <> x'' AND expires_at > ?"
_REMOVE_MARK = "DELETE FROM dupeproof_marks WHERE key = ? RETURNING expires_at"
_RETIRE = "DELETE FROM dupeproof_sequences WHERE key = ?"
_PURGE_MARKS = (
    "DELETE FROM dupeproof_marks WHERE key IN "
    "(SELECT key FROM dupeproof_marks WHERE expires_at <= ? ORDER BY expires_at LIMIT ?)"
)
_PURGE_RECORDS = (
    "DELETE FROM dupeproof_records WHERE key IN (SELECT key FROM dupeproof_records "
    "WHERE purge_from > 0 AND purge_from <= ? AND expires_at <= ? ORDER BY purge_from LIMIT ?)"
)
_COUNT_RECORDS = """
    SELECT CASE WHEN expires_at > 0 AND expires_at <= :now THEN 'free'
                WHEN state = 'resolved' THEN 'done'
                WHEN state <> 'running' OR lease_until > :now THEN state
                WHEN hold THEN 'held' ELSE 'abandoned' END AS situation, count(*)
    FROM dupeproof_records GROUP BY situation
"""
_COUNT_INBOX = "SELECT count(*) FILTER (WHERE expires_at > ?), count(*) FROM dupeproof_inbox"
_COUNT_MARKS = "SELECT count(*) FILTER (WHERE expires_at > ?), count(*) FROM dupeproof_marks"


class SQLiteStore:
    """Sync store on a file. The clock is the machine's own, which all its users share."""

    def __init__(
        self,
        path: Path | str,
        *,
        synchronous: str = "full",
        timeout: float = 5.0,
        clock: Clock = system_clock,
    ) -> None:
        self._database = Database(Path(path), synchronous=synchronous, timeout=timeout)
        self._clock = clock
        self.path = Path(path)
        self.timeout = timeout
        self._expects_new = True
        """What the last single call found. A known key is looked at first, which needs no lock; of a new one the look is a
        good part of the price."""

    def claim(self, requests: Sequence[ClaimRequest]) -> list[Outcome]:
        return self._database.run(self._claim, requests)

    def finish(self, changes: Sequence[Finish]) -> list[bool]:
        return self._database.run(self._finish, changes)

    def fail(self, changes: Sequence[Fail]) -> list[bool]:
        return self._database.run(self._apply, decisions.fail, changes)

    def release(self, changes: Sequence[Release]) -> list[bool]:
        return self._database.run(self._apply, decisions.release, changes)

    def renew(self, changes: Sequence[Renew]) -> list[bool]:
        return self._database.run(self._apply, decisions.renew, changes)

    def get(self, keys: Sequence[bytes]) -> list[Found | None]:
        return self._database.run(self._get, keys)

    def waiting(self, limit: int) -> list[Listed]:
        return self._listed(self._database.run(rows.waiting, limit))

    def find(self, digits: str, limit: int) -> list[bytes]:
        return self._database.run(rows.find, digits, limit)

    def sample(self, limit: int) -> Sample:
        page = self._database.run(rows.page, b"", limit)
        return Sample(self._listed(page), share_of([key for key, _ in page], limit))

    def records(self) -> Iterator[list[Listed]]:
        page = self._database.run(rows.page, b"", _PAGE)
        while page:
            yield self._listed(page)
            page = self._database.run(rows.page, page[-1][0], _PAGE)

    def forget(self, keys: Sequence[bytes]) -> list[bool]:
        return self._database.run(self._forget, keys)

    def mark(self, marks: Sequence[Mark]) -> list[bool]:
        return self._database.run(self._mark, marks)

    def unmark(self, marks: Sequence[Mark]) -> list[bool]:
        return self._database.run(self._unmark, marks)

    def marks(self, keys: Sequence[bytes]) -> list[FoundMark | None]:
        return self._database.run(self._marks, keys)

    def advance(self, numbers: Sequence[Number]) -> list[Verdict]:
        return self._database.run(self._advance, numbers)

    def retire(self, keys: Sequence[bytes]) -> list[bool]:
        return self._database.run(self._retire, keys)

    def sequences(self) -> SequenceStats:
        return self._database.run(self._sequences)

    def purge(self, limit: int) -> int:
        return self._database.run(self._purge, limit)

    def stats(self) -> Stats:
        return self._database.run(self._stats)

    def check(self) -> Health:
        return self._database.run(self._check)

    def schema(self) -> str:
        return SCHEMA

    def close(self) -> None:
        self._database.close()

    def _listed(self, found: list[tuple[bytes, Record]]) -> list[Listed]:
        now = self._clock()
        return [Listed(key, record, now) for key, record in found if record.situation(now) is not State.FREE]

    # Each of these has the connection to itself. What is one statement is a transaction of its own.

    def _claim(self, connection: sqlite3.Connection, requests: Sequence[ClaimRequest]) -> list[Outcome]:
        now = self._clock()
        if len(requests) == 1 and self._expects_new and self._added(connection, requests[0], now):
            return [_FIRST]
        known = _only_read(connection, requests, now)
        if known is not None:
            return known
        self._expects_new = True
        with transaction(connection):
            return [_claimed(connection, request, now) for request in requests]

    def _added(self, connection: sqlite3.Connection, request: ClaimRequest, now: int) -> bool:
        try:
            self._expects_new = rows.add(connection, request, now)
        except sqlite3.OperationalError as exc:
            # Somebody else is writing: a replay must not wait for that, and is looked for first.
            if not is_busy(exc) or rows.read(connection, request.key) is None:
                raise
            self._expects_new = False
        return self._expects_new

    def _finish(self, connection: sqlite3.Connection, changes: Sequence[Finish]) -> list[bool]:
        if len(changes) == 1 and rows.close(connection, changes[0], self._clock()):
            return [True]
        with transaction(connection):
            now = self._clock()
            return [
                rows.close(connection, change, now) or _applied(connection, decisions.finish, change, now)
                for change in changes
            ]

    def _apply(
        self,
        connection: sqlite3.Connection,
        decide: Callable[[Record | None, Change, int], Record | None],
        changes: Sequence[Change],
    ) -> list[bool]:
        with transaction(connection):
            now = self._clock()
            return [_applied(connection, decide, change, now) for change in changes]

    def _get(self, connection: sqlite3.Connection, keys: Sequence[bytes]) -> list[Found | None]:
        now = self._clock()
        found = [rows.read(connection, key) for key in keys]
        return [
            Found(record, now) if record and record.situation(now) is not State.FREE else None
            for record in found
        ]

    def _forget(self, connection: sqlite3.Connection, keys: Sequence[bytes]) -> list[bool]:
        answers = []
        with transaction(connection):
            now = self._clock()
            for key in keys:
                record = rows.read(connection, key)
                rows.remove(connection, key)
                mark = connection.execute(_REMOVE_MARK, (key,)).fetchone()
                answers.append(
                    (record is not None and record.situation(now) is not State.FREE)
                    or (mark is not None and mark[0] > now)
                )
        return answers

    def _mark(self, connection: sqlite3.Connection, marks: Sequence[Mark]) -> list[bool]:
        now = self._clock()
        if not (len(marks) == 1 and self._expects_new) and _all_marked(connection, marks, now):
            return [False] * len(marks)
        if len(marks) == 1:
            try:
                self._expects_new = _marked(connection, marks[0], now)
            except sqlite3.OperationalError as exc:
                if not is_busy(exc) or not _all_marked(connection, marks, now):
                    raise
                self._expects_new = False
            return [self._expects_new]
        with transaction(connection):
            return [_marked(connection, mark, now) for mark in marks]

    def _unmark(self, connection: sqlite3.Connection, marks: Sequence[Mark]) -> list[bool]:
        with transaction(connection):
            now = self._clock()
            return [connection.execute(_UNMARK, (m.key, m.token, now)).rowcount == 1 for m in marks]

    def _marks(self, connection: sqlite3.Connection, keys: Sequence[bytes]) -> list[FoundMark | None]:
        now = self._clock()
        found = [connection.execute(_READ_MARK, (key, now)).fetchone() for key in keys]
        return [None if row is None else FoundMark(row[0], row[1], now, bool(row[2])) for row in found]

    def _advance(self, connection: sqlite3.Connection, numbers: Sequence[Number]) -> list[Verdict]:
        with transaction(connection):
            return sequences.advance(Sqlite(connection), numbers)

    def _retire(self, connection: sqlite3.Connection, keys: Sequence[bytes]) -> list[bool]:
        with transaction(connection):
            return [connection.execute(_RETIRE, (key,)).rowcount > 0 for key in keys]

    def _sequences(self, connection: sqlite3.Connection) -> SequenceStats:
        producers = connection.execute("SELECT count(*) FROM dupeproof_sequences").fetchone()[0]
        return SequenceStats(producers=producers)

    def _purge(self, connection: sqlite3.Connection, limit: int) -> int:
        with transaction(connection):
            now = self._clock()
            gone = connection.execute(_PURGE_MARKS, (now, limit)).rowcount
            if gone < limit:
                gone += purge_inbox(Sqlite(connection), limit - gone)
            if gone < limit:
                gone += connection.execute(_PURGE_RECORDS, (now, now, limit - gone)).rowcount
        return gone

    def _stats(self, connection: sqlite3.Connection) -> Stats:
        now = self._clock()
        records: dict[str, int] = dict(connection.execute(_COUNT_RECORDS, {"now": now}).fetchall())
        live, marks = connection.execute(_COUNT_MARKS, (now,)).fetchone()
        size = connection.execute(
            "SELECT page_count * page_size FROM pragma_page_count, pragma_page_size"
        ).fetchone()[0]
        inbox, all_inbox = connection.execute(_COUNT_INBOX, (now,)).fetchone()
        expired = records.pop(State.FREE, 0) + marks - live + all_inbox - inbox
        return Stats(marks=live, records=records, expired=expired, inbox=inbox, bytes=size)

    def _check(self, connection: sqlite3.Connection) -> Health:
        with transaction(connection):
            synchronous = connection.execute("PRAGMA synchronous").fetchone()[0]
        return Health(store="sqlite", version=sqlite3.sqlite_version, details={"synchronous": synchronous})


def _all_marked(connection: sqlite3.Connection, marks: Sequence[Mark], now: int) -> bool:
    return all(connection.execute(_READ_MARK, (mark.key, now)).fetchone() for mark in marks)


def _only_read(
    connection: sqlite3.Connection, requests: Sequence[ClaimRequest], now: int
) -> list[Outcome] | None:
    """The outcomes, if none of them takes a write: a replay does not wait for the write lock."""
    known = []
    for request in requests:
        found = rows.read(connection, request.key)
        if found is None:
            return None
        outcome, changed = decisions.claim(found, request, now)
        if changed is not None:
            return None
        known.append(outcome)
    return known


def _claimed(connection: sqlite3.Connection, request: ClaimRequest, now: int) -> Outcome:
    if rows.add(connection, request, now):
        return _FIRST
    outcome, changed = decisions.claim(rows.read(connection, request.key), request, now)
    if changed is not None:
        rows.write(connection, request.key, changed)
    return outcome


def _applied(
    connection: sqlite3.Connection,
    decide: Callable[[Record | None, Change, int], Record | None],
    change: Change,
    now: int,
) -> bool:
    record = decide(rows.read(connection, change.key), change, now)
    if record is not None:
        rows.write(connection, change.key, record)
    return record is not None


def _marked(connection: sqlite3.Connection, mark: Mark, now: int) -> bool:
    values = (mark.key, now + mark.window, mark.token, mark.meta, now)
    return connection.execute(_MARK, values).rowcount == 1
