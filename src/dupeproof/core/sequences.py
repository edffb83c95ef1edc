"""Numbered messages: one row per producer says which numbers came, however many there were.

A producer numbers its messages and bears an epoch, which grows each time it starts anew. Its row remembers every number
from `floor` on; the floor follows `gap` behind the highest number, so the row stays small and needs no window.
"""

from enum import StrEnum

from msgspec import Struct

LARGEST = 2**53 - 1
"""Numbers are exact up to here also in Lua, which counts in doubles."""


class Verdict(StrEnum):
    """What a number is. Only `FRESH` is true."""

    FRESH = "fresh"
    DUPLICATE = "duplicate"
    FENCED = "fenced"
    """A newer epoch of the same producer has been met: this one comes from a zombie."""
    TOO_OLD = "too_old"
    """More than `gap` behind the highest number: whether it came before is no longer known."""

    def __bool__(self) -> bool:
        return self is Verdict.FRESH


class Number(Struct, frozen=True, gc=False):
    key: bytes
    """16-byte digest of namespace and producer."""
    epoch: int
    sequence: int
    gap: int


class Row(Struct, frozen=True, gc=False):
    epoch: int
    floor: int
    """Everything below is forgotten."""
    seen: int
    """Bit n is set when the number floor + n came."""


class SequenceStats(Struct, frozen=True, kw_only=True):
    producers: int
    bytes: int | None = None
    """Size on disk or in memory where the store knows it."""


def decide(row: Row | None, number: Number) -> tuple[Verdict, Row | None]:
    """The verdict on a number, and the row it leaves where that has changed."""
    gap, sequence = number.gap, number.sequence
    if row is None or number.epoch > row.epoch:
        row = Row(number.epoch, max(0, sequence - gap + 1), 0)
    if number.epoch < row.epoch:
        return Verdict.FENCED, None
    place = sequence - row.floor
    if place < 0:
        return Verdict.TOO_OLD, None
    if (row.seen >> place) & 1:
        return Verdict.DUPLICATE, None
    # Shifted before the bit is set: a number that jumps far ahead must not make a bitmap as long as the jump.
    drop = max(0, place + 1 - gap)
    return Verdict.FRESH, Row(row.epoch, row.floor + drop, (row.seen >> drop) | (1 << (place - drop)))


def to_blob(seen: int) -> bytes:
    return seen.to_bytes((seen.bit_length() + 7) // 8, "little")


def from_blob(blob: bytes) -> int:
    return int.from_bytes(blob, "little")
