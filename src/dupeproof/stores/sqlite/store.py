"""The store over SQLite: read, decide in Python, write, in one immediate transaction per batch."""

import sqlite3
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import TypeVar

from dupeproof.core import transitions
from dupeproof.core.clock import Clock, system_clock
from dupeproof.core.outcomes import Outcome
from dupeproof.core.records import (
    ClaimRequest,
    Fail,
    Finish,
    Found,
    FoundMark,
    Health,
    Mark,
    Record,
    Release,
    Renew,
    Stats,
)
from dupeproof.core.sequences import Number, SequenceStats, Verdict
from dupeproof.core.states import State
from dupeproof.stores.sqlite import sequences
from dupeproof.stores.sqlite.connection import SCHEMA, Database

Change = TypeVar("Change", Finish, Fail, Release, Renew)

_READ = (
    "SELECT state, token, attempt, fingerprint, namespace, hold, created_at, lease_until, finished_at, expires_at, "
    "codec, error, result FROM dupeproof_records WHERE key = ?"
)
_WRITE = "REPLACE INTO dupeproof_records VALUES (?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?)"
_REMOVE = "DELETE FROM dupeproof_records WHERE key = ?"
_READ_MARK = "SELECT meta, expires_at FROM dupeproof_marks WHERE key = ? AND expires_at > ?"
_MARK = (
    "INSERT INTO dupeproof_marks (key, expires_at, token, meta) VALUES (?, ?, ?, ?) "
    "ON CONFLICT (key) DO UPDATE SET expires_at = excluded.expires_at, token = excluded.token, meta = excluded.meta "
    "WHERE dupeproof_marks.expires_at <= ?"
)
_UNMARK = "DELETE FROM dupeproof_marks WHERE key = ? AND token = ? AND token <> x'' AND expires_at > ?"
_REMOVE_MARK = "DELETE FROM dupeproof_marks WHERE key = ? RETURNING expires_at"
_PURGE_MARKS = (
    "DELETE FROM dupeproof_marks WHERE key IN "
    "(SELECT key FROM dupeproof_marks WHERE expires_at <= ? ORDER BY expires_at LIMIT ?)"
)
_PURGE_RECORDS = (
    "DELETE FROM dupeproof_records WHERE rowid IN "
    "(SELECT rowid FROM dupeproof_records WHERE expires_at > 0 AND expires_at <= ? ORDER BY expires_at LIMIT ?)"
)
_COUNT_RECORDS = """
    SELECT CASE WHEN expires_at > 0 AND expires_at <= :now THEN 'free'
                WHEN state <> 'running' OR lease_until > :now THEN state
                WHEN hold THEN 'held' ELSE 'abandoned' END AS situation, count(*)
    FROM dupeproof_records GROUP BY situation
"""
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

    def claim(self, requests: Sequence[ClaimRequest]) -> list[Outcome]:
        # A replay changes nothing, so look without the write lock first and come back only to write.
        with self._database.reading() as connection:
            now = self._clock()
            decided = [
                transitions.claim(_read(connection, request.key), request, now) for request in requests
            ]
        if all(changed is None for _, changed in decided):
            return [outcome for outcome, _ in decided]
        outcomes = []
        with self._database.writing() as connection:
            now = self._clock()
            for request in requests:
                outcome, changed = transitions.claim(_read(connection, request.key), request, now)
                outcomes.append(outcome)
                if changed is not None:
                    _write(connection, request.key, changed)
        return outcomes

    def finish(self, changes: Sequence[Finish]) -> list[bool]:
        return self._apply(transitions.finish, changes)

    def fail(self, changes: Sequence[Fail]) -> list[bool]:
        return self._apply(transitions.fail, changes)

    def release(self, changes: Sequence[Release]) -> list[bool]:
        return self._apply(transitions.release, changes)

    def renew(self, changes: Sequence[Renew]) -> list[bool]:
        return self._apply(transitions.renew, changes)

    def get(self, keys: Sequence[bytes]) -> list[Found | None]:
        with self._database.reading() as connection:
            now = self._clock()
            found = [_read(connection, key) for key in keys]
        return [
            None if record is None or record.situation(now) is State.FREE else Found(record, now)
            for record in found
        ]

    def forget(self, keys: Sequence[bytes]) -> list[bool]:
        answers = []
        with self._database.writing() as connection:
            now = self._clock()
            for key in keys:
                record = _read(connection, key)
                connection.execute(_REMOVE, (key,))
                mark = connection.execute(_REMOVE_MARK, (key,)).fetchone()
                answers.append(
                    (record is not None and record.situation(now) is not State.FREE)
                    or (mark is not None and mark[0] > now)
                )
        return answers

    def mark(self, marks: Sequence[Mark]) -> list[bool]:
        with self._database.reading() as connection:
            now = self._clock()
            if all(connection.execute(_READ_MARK, (mark.key, now)).fetchone() for mark in marks):
                return [False] * len(marks)
        with self._database.writing() as connection:
            now = self._clock()
            return [
                connection.execute(_MARK, (m.key, now + m.window, m.token, m.meta, now)).rowcount == 1
                for m in marks
            ]

    def unmark(self, marks: Sequence[Mark]) -> list[bool]:
        with self._database.writing() as connection:
            now = self._clock()
            return [connection.execute(_UNMARK, (m.key, m.token, now)).rowcount == 1 for m in marks]

    def marks(self, keys: Sequence[bytes]) -> list[FoundMark | None]:
        with self._database.reading() as connection:
            now = self._clock()
            rows = [connection.execute(_READ_MARK, (key, now)).fetchone() for key in keys]
        return [None if row is None else FoundMark(*row) for row in rows]

    def advance(self, numbers: Sequence[Number]) -> list[Verdict]:
        with self._database.writing() as connection:
            return sequences.advance(connection, numbers)

    def retire(self, keys: Sequence[bytes]) -> list[bool]:
        with self._database.writing() as connection:
            return sequences.retire(connection, keys)

    def sequences(self) -> SequenceStats:
        with self._database.reading() as connection:
            return sequences.stats(connection)

    def purge(self, limit: int) -> int:
        with self._database.writing() as connection:
            now = self._clock()
            gone = connection.execute(_PURGE_MARKS, (now, limit)).rowcount
            if gone < limit:
                gone += connection.execute(_PURGE_RECORDS, (now, limit - gone)).rowcount
        return gone

    def stats(self) -> Stats:
        with self._database.reading() as connection:
            now = self._clock()
            records: dict[str, int] = dict(connection.execute(_COUNT_RECORDS, {"now": now}).fetchall())
            live, marks = connection.execute(_COUNT_MARKS, (now,)).fetchone()
            size = connection.execute(
                "SELECT page_count * page_size FROM pragma_page_count, pragma_page_size"
            ).fetchone()[0]
        expired = records.pop(State.FREE, 0) + marks - live
        return Stats(marks=live, records=records, expired=expired, bytes=size)

    def check(self) -> Health:
        with self._database.writing() as connection:
            synchronous = connection.execute("PRAGMA synchronous").fetchone()[0]
        return Health(store="sqlite", version=sqlite3.sqlite_version, details={"synchronous": synchronous})

    def schema(self) -> str:
        return SCHEMA

    def close(self) -> None:
        self._database.close()

    def _apply(
        self, decide: Callable[[Record | None, Change, int], Record | None], changes: Sequence[Change]
    ) -> list[bool]:
        answers = []
        with self._database.writing() as connection:
            now = self._clock()
            for change in changes:
                record = decide(_read(connection, change.key), change, now)
                answers.append(record is not None)
                if record is not None:
                    _write(connection, change.key, record)
        return answers


def _read(connection: sqlite3.Connection, key: bytes) -> Record | None:
    row = connection.execute(_READ, (key,)).fetchone()
    if row is None:
        return None
    (
        state, token, attempt, fingerprint, namespace, hold, created_at, lease_until, finished_at, expires_at,
        codec, error, result,
    ) = row  # fmt: skip
    return Record(
        state=State(state),
        token=token,
        attempt=attempt,
        fingerprint=fingerprint,
        namespace=namespace,
        hold=bool(hold),
        created_at=created_at,
        lease_until=lease_until,
        finished_at=finished_at,
        expires_at=expires_at,
        codec=codec,
        error=error,
        result=result,
    )


def _write(connection: sqlite3.Connection, key: bytes, record: Record) -> None:
    if record.attempt == 0:
        connection.execute(_REMOVE, (key,))
        return
    connection.execute(
        _WRITE,
        (
            key,
            str(record.state),
            record.token,
            record.attempt,
            record.fingerprint,
            record.namespace,
            record.hold,
            record.created_at,
            record.lease_until,
            record.finished_at,
            record.expires_at,
            record.codec,
            record.error,
            record.result,
        ),
    )
