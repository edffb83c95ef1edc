# Written by tools/twins.py from src/dupeproof/stores/postgres/sequences_async.py; change that file instead.
"""Rows of producers in PostgreSQL, on any connection in a transaction: the store's own, or the caller's.

The rows are locked when they are read, so the decision can be made here. Two statements for producers known already.
"""

from collections.abc import Iterable, Sequence

import msgspec

from dupeproof.core.sequences import Number, Row, Verdict, decide, from_blob, to_blob
from dupeproof.sql import CallerConnection
from dupeproof.stores.postgres.statements import statement


def advance(adapted: CallerConnection, numbers: Sequence[Number]) -> list[Verdict]:
    while (verdicts := advance_known(adapted, numbers)) is None:  # again, should one be retired in between
        make(adapted, numbers)
    return verdicts


def make(adapted: CallerConnection, numbers: Sequence[Number]) -> None:
    """Rows for producers that have none."""
    adapted.execute(statement("make_sequences"), _together(_keys(numbers)))


def advance_known(adapted: CallerConnection, numbers: Sequence[Number]) -> list[Verdict] | None:
    """None if a producer has no row. Who can, ends the transaction before making it: the rows that are there are locked,
    and others may hold those to come and wait for these.
    """
    keys = _keys(numbers)
    found = _locked(adapted, keys)
    if len(found) < len(keys):
        return None
    verdicts = []
    changes: dict[str, Row] = {}
    for number in numbers:
        key = number.key.hex()
        verdict, changed = decide(found[key], number)
        verdicts.append(verdict)
        if changed is not None:
            found[key] = changes[key] = changed
    if changes:
        written = [
            {"key": key, "epoch": row.epoch, "floor": row.floor, "seen": to_blob(row.seen).hex()}
            for key, row in changes.items()
        ]
        adapted.execute(statement("write_sequences"), {"written": msgspec.json.encode(written).decode()})
    return verdicts


def _keys(numbers: Sequence[Number]) -> list[str]:
    return [key.hex() for key in sorted({number.key for number in numbers})]


def _locked(adapted: CallerConnection, keys: list[str]) -> dict[str, Row]:
    rows = adapted.execute(statement("lock_sequences"), _together(keys))
    return {key: Row(epoch, floor, from_blob(seen)) for key, epoch, floor, seen in rows}


def _together(keys: Iterable[str]) -> dict[str, str]:
    """One text, which every driver can send; not every one can send an array."""
    return {"keys": ",".join(keys)}
