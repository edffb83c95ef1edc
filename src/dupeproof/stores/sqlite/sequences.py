# Written by tools/twins.py from src/dupeproof/stores/sqlite/sequences_async.py; change that file instead.
"""Rows of producers in SQLite, on any connection in a transaction: the store's own, or the caller's."""

from collections.abc import Sequence

from dupeproof.core.sequences import Number, Row, Verdict, decide, from_blob, to_blob
from dupeproof.sql import CallerConnection

_LOCK = "DELETE FROM dupeproof_sequences WHERE key IS NULL"
"""Removes nothing, but makes this a writing transaction, so that what is read after it cannot be outdated."""
_READ = "SELECT epoch, floor, seen FROM dupeproof_sequences WHERE key = :key"
_WRITE = "REPLACE INTO dupeproof_sequences VALUES (:key, :epoch, :floor, :seen)"


def advance(adapted: CallerConnection, numbers: Sequence[Number]) -> list[Verdict]:
    adapted.execute(_LOCK)
    verdicts = []
    for number in numbers:
        found = adapted.execute(_READ, {"key": number.key})
        row = Row(found[0][0], found[0][1], from_blob(found[0][2])) if found else None
        verdict, changed = decide(row, number)
        verdicts.append(verdict)
        if changed is not None:
            values = {"epoch": changed.epoch, "floor": changed.floor, "seen": to_blob(changed.seen)}
            adapted.execute(_WRITE, {"key": number.key, **values})
    return verdicts
