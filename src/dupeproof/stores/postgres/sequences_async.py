"""Rows of producers in PostgreSQL, on any connection in a transaction: the store's own, or the caller's.

The rows are locked when they are read, so the decision can be made here. Two statements for producers known already.
"""

from collections.abc import Iterable, Sequence

import msgspec

from dupeproof.core.sequences import Number, Row, Verdict, decide, from_blob, to_blob
from dupeproof.sql import AsyncCallerConnection
from dupeproof.stores.postgres.statements import statement


async def advance(adapted: AsyncCallerConnection, numbers: Sequence[Number]) -> list[Verdict]:
    while (
        verdicts := await advance_known(adapted, numbers)
    ) is None:  # again, should one be retired in between
        await make(adapted, numbers)
    return verdicts


async def make(adapted: AsyncCallerConnection, numbers: Sequence[Number]) -> None:
    """Rows for producers that have none."""
    await adapted.execute(statement("make_sequences"), _together(_keys(numbers)))


async def advance_known(adapted: AsyncCallerConnection, numbers: Sequence[Number]) -> list[Verdict] | None:
    """None if a producer has no row. Who can, ends the transaction before making it: the rows that are there are locked,
    and others may hold those to come and wait for these.
    """
    keys = _keys(numbers)
    found = await _locked(adapted, keys)
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
        await adapted.execute(
            statement("write_sequences"), {"written": msgspec.json.encode(written).decode()}
        )
    return verdicts


def _keys(numbers: Sequence[Number]) -> list[str]:
    return [key.hex() for key in sorted({number.key for number in numbers})]


async def _locked(adapted: AsyncCallerConnection, keys: list[str]) -> dict[str, Row]:
    rows = await adapted.execute(statement("lock_sequences"), _together(keys))
    return {key: Row(epoch, floor, from_blob(seen)) for key, epoch, floor, seen in rows}


def _together(keys: Iterable[str]) -> dict[str, str]:
    """One text, which every driver can send; not every one can send an array."""
    return {"keys": ",".join(keys)}
