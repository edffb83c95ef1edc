"""Rows of producers in SQLite, on any connection: the store's own, or the caller's in its transaction."""

import sqlite3
from collections.abc import Sequence

from dupeproof.core.sequences import Number, Row, SequenceStats, Verdict, decide, from_blob, to_blob

_LOCK = "DELETE FROM dupeproof_sequences WHERE key IS NULL"
"""Removes nothing, but makes this a writing transaction, so that what is read after it cannot be outdated."""
_READ = "SELECT epoch, floor, seen FROM dupeproof_sequences WHERE key = ?"
_WRITE = "REPLACE INTO dupeproof_sequences VALUES (?, ?, ?, ?)"
_REMOVE = "DELETE FROM dupeproof_sequences WHERE key = ?"


def advance(connection: sqlite3.Connection, numbers: Sequence[Number]) -> list[Verdict]:
    # A cursor of our own with plain rows: the connection may be set up to give others.
    cursor = connection.cursor()
    cursor.row_factory = None
    cursor.execute(_LOCK)
    verdicts = []
    for number in numbers:
        found = cursor.execute(_READ, (number.key,)).fetchone()
        row = None if found is None else Row(found[0], found[1], from_blob(found[2]))
        verdict, changed = decide(row, number)
        verdicts.append(verdict)
        if changed is not None:
            cursor.execute(_WRITE, (number.key, changed.epoch, changed.floor, to_blob(changed.seen)))
    return verdicts


def retire(connection: sqlite3.Connection, keys: Sequence[bytes]) -> list[bool]:
    return [connection.execute(_REMOVE, (key,)).rowcount > 0 for key in keys]


def stats(connection: sqlite3.Connection) -> SequenceStats:
    producers = connection.execute("SELECT count(*) FROM dupeproof_sequences").fetchone()[0]
    return SequenceStats(producers=producers)
