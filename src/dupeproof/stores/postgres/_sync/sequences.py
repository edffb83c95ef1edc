# Written by tools/twins.py from src/dupeproof/stores/postgres/_async/sequences.py; change that file instead.
"""Rows of producers in PostgreSQL, on any connection in a transaction: the store's own, or the caller's.

The rows are locked when they are read, so the decision can be made here. Two statements for producers known already.
"""

from collections.abc import Sequence
from typing import Any

from psycopg import Connection, Cursor
from psycopg.rows import tuple_row

from dupeproof.core.sequences import Number, Row, Verdict, decide, from_blob, to_blob
from dupeproof.stores.postgres.statements import statement


def advance(connection: Connection[Any], numbers: Sequence[Number]) -> list[Verdict]:
    # A cursor of our own with plain rows: the connection may be set up to give others.
    with connection.cursor(row_factory=tuple_row) as cursor:
        keys = [key.hex() for key in sorted({number.key for number in numbers})]
        found = _locked(cursor, keys)
        while len(found) < len(keys):  # again, should one be retired in between
            cursor.execute(statement("make_sequences"), [[key for key in keys if key not in found]])
            found = _locked(cursor, keys)
        verdicts = []
        changes: dict[str, Row] = {}
        for number in numbers:
            key = number.key.hex()
            verdict, changed = decide(found[key], number)
            verdicts.append(verdict)
            if changed is not None:
                found[key] = changes[key] = changed
        if changes:
            cursor.execute(
                statement("write_sequences"),
                [
                    list(changes),
                    [row.epoch for row in changes.values()],
                    [row.floor for row in changes.values()],
                    [to_blob(row.seen) for row in changes.values()],
                ],
            )
        return verdicts


def _locked(cursor: Cursor[tuple[Any, ...]], keys: list[str]) -> dict[str, Row]:
    cursor.execute(statement("lock_sequences"), [keys])
    return {key: Row(epoch, floor, from_blob(seen)) for key, epoch, floor, seen in cursor.fetchall()}
