"""Rows of PostgreSQL as values of the contract, and back, in its binary form.

The driver's way with lists costs more than the server's work on them.
"""

import struct
import uuid
from collections.abc import Callable, Sequence
from functools import lru_cache
from typing import Any, Protocol, TypeVar

from dupeproof.core import outcomes
from dupeproof.core.outcomes import Outcome
from dupeproof.core.records import (
    ClaimRequest,
    Fail,
    Finish,
    Found,
    FoundMark,
    Listed,
    Mark,
    Record,
    Release,
    Renew,
    Terms,
)
from dupeproof.core.states import State

T = TypeVar("T")
K = TypeVar("K", bound="Keyed")
Rows = list[tuple[Any, ...]]
Values = list[bytes]
_FIRST = outcomes.Won(1)
_ALONE = (0,)
TRUE = b"\1"
BOOLEAN, BYTES, BIGINT, INTEGER, TEXT, TIMESTAMP, UUID = 16, 17, 20, 23, 25, 1184, 2950
"""Types of elements, by the numbers the server knows them under."""
ARRAY_OF = {BOOLEAN: 1000, BYTES: 1001, BIGINT: 1016, INTEGER: 1007, TEXT: 1009, UUID: 2951}

_HEAD = struct.Struct(">iiiii")
_SIZE = struct.Struct(">i")
_FIELD = struct.Struct(">ii")
"""Its type and its size, which is negative for NULL."""
_UUID_SIZE = _SIZE.pack(16)


class Answer(Protocol):
    """Rows in binary form, as libpq has them."""

    @property
    def ntuples(self) -> int: ...

    @property
    def nfields(self) -> int: ...

    def get_value(self, row_number: int, column_number: int, /) -> bytes | None: ...


class Keyed(Protocol):
    @property
    def key(self) -> bytes: ...


def in_order(items: Sequence[K]) -> tuple[Sequence[K], Sequence[int]]:
    """The items by key, and their places: the functions take keys in ascending order. Equal keys stay as they are."""
    if len(items) == 1:
        return items, _ALONE
    order = sorted(range(len(items)), key=lambda place: items[place].key)
    return [items[place] for place in order], order


def claim_columns(requests: Sequence[ClaimRequest]) -> Values:
    return [
        uuid_array([r.key for r in requests]),
        bytes_array([r.token for r in requests]),
        bytes_array([r.fingerprint for r in requests]),
        _shared(text_array, [r.terms.namespace for r in requests]),
        _shared(bigint_array, [r.terms.lease for r in requests]),
        _shared(bigint_array, [r.terms.window for r in requests]),
        _shared(boolean_array, [r.terms.hold for r in requests]),
        _shared(integer_array, [r.terms.max_attempts for r in requests]),
        _shared(text_array, [r.terms.name for r in requests]),
        _shared(text_array, [r.kept_key for r in requests]),
    ]


def finish_columns(changes: Sequence[Finish]) -> Values:
    return [
        uuid_array([c.key for c in changes]),
        bytes_array([c.token for c in changes]),
        _shared(bytes_array, [c.resolver for c in changes]),
        _shared(bigint_array, [c.window for c in changes]),
        _shared(text_array, [c.codec for c in changes]),
        bytes_array([c.result for c in changes]),
    ]


def fail_columns(changes: Sequence[Fail]) -> Values:
    return [
        uuid_array([c.key for c in changes]),
        bytes_array([c.token for c in changes]),
        _shared(bigint_array, [c.window for c in changes]),
        text_array([c.error for c in changes]),
        _shared(text_array, ["held" if c.hold else "dead" if c.dead else "failed" for c in changes]),
        _shared(bigint_array, [c.since for c in changes]),
    ]


def release_columns(changes: Sequence[Release]) -> Values:
    return [
        uuid_array([c.key for c in changes]),
        bytes_array([c.token for c in changes]),
        _shared(bigint_array, [c.window for c in changes]),
        _shared(boolean_array, [c.reopen for c in changes]),
    ]


def renew_columns(changes: Sequence[Renew]) -> Values:
    return [
        uuid_array([c.key for c in changes]),
        bytes_array([c.token for c in changes]),
        _shared(bigint_array, [c.lease for c in changes]),
        _shared(bigint_array, [c.window for c in changes]),
        _shared(bytes_array, [c.taker for c in changes]),
        _shared(bytes_array, [c.journal for c in changes]),
    ]


def mark_columns(marks: Sequence[Mark]) -> Values:
    return [
        uuid_array([m.key for m in marks]),
        _shared(bigint_array, [m.window for m in marks]),
        _shared(bytes_array, [m.token for m in marks]),
        _shared(bytes_array, [m.meta for m in marks]),
    ]


def outcome_of(result: Answer) -> Outcome:
    verdict, *details = fields_of(result.get_value(0, 0) or b"")
    return _outcome(verdict, *details) if verdict else _FIRST


def outcomes_of(result: Answer, order: Sequence[int]) -> list[Outcome]:
    """The server lists those that were not won at the first attempt."""
    answers: list[Outcome] = [_FIRST] * len(order)
    for row in range(result.ntuples):
        place, *details = (result.get_value(row, column) or b"" for column in range(result.nfields))
        answers[order[_integer(place) - 1]] = _outcome(*details)
    return answers


def answers_of(result: Answer, order: Sequence[int]) -> list[bool]:
    """The server lists those that are no longer theirs."""
    answers = [True] * len(order)
    for row in range(result.ntuples):
        answers[order[_integer(result.get_value(row, 0) or b"") - 1]] = False
    return answers


def found(rows: Rows, keys: Sequence[bytes]) -> list[Found | None]:
    by_key = {digest(row[0]): _found(*row[1:]) for row in rows}
    return [by_key.get(key) for key in keys]


def listed(rows: Rows) -> list[Listed]:
    found = ((digest(row[0]), _found(*row[1:])) for row in rows)
    return [
        Listed(key, each.record, each.now)
        for key, each in found
        if each.record.situation(each.now) is not State.FREE
    ]


def found_marks(rows: Rows, keys: Sequence[bytes]) -> list[FoundMark | None]:
    by_key = {digest(key): FoundMark(bytes(meta), *rest) for key, meta, *rest in rows}
    return [by_key.get(key) for key in keys]


def digest(key: uuid.UUID | str | None) -> bytes:
    """Some drivers give a uuid as text. There may be a row that only looks at the clock."""
    if key is None:
        return b""
    return (uuid.UUID(key) if isinstance(key, str) else key).bytes


def _shared(array: Callable[[Sequence[T]], bytes], values: list[T]) -> bytes:
    """One element for all, where they are all the same, as they nearly always are."""
    same = bool(values) and values.count(values[0]) == len(values)
    return array(values[:1] if same else values)


@lru_cache(1_000)
def terms_values(terms: Terms) -> Values:
    return [
        terms.namespace.encode(),
        bigint(terms.lease),
        bigint(terms.window),
        boolean(terms.hold),
        integer(terms.max_attempts),
        terms.name.encode(),
    ]


def _integer(data: bytes) -> int:
    return int.from_bytes(data, "big", signed=True)


def _outcome(
    verdict: bytes, attempt: bytes, flag: bytes, lease_left: bytes, codec: bytes, result: bytes
) -> Outcome:
    match verdict:
        case b"done":
            return outcomes.Done(result, codec.decode(), _integer(attempt))
        case b"won":
            return outcomes.Won(_integer(attempt), flag == TRUE)
        case b"busy":
            return outcomes.Busy(_integer(lease_left))
        case b"mismatch":
            return outcomes.Mismatch()
        case b"held":
            return outcomes.Held(_integer(attempt))
        case b"dead":
            return outcomes.Dead(_integer(attempt), flag == TRUE)
    raise AssertionError(f"dupeproof_claim_v1 gave the unknown verdict {verdict!r}")


def _found(
    state: str, token: bytes, attempt: int, fingerprint: bytes, namespace: str, hold: bool, created_at: int,
    lease_until: int, finished_at: int, expires_at: int, codec: str, error: str, window: int, took_over: bool, name: str,
    kept_key: str,     now: int, result: bytes = b"",
) -> Found:  # fmt: skip
    record = Record(
        state=State(state),
        token=bytes(token),
        attempt=attempt,
        fingerprint=bytes(fingerprint),
        namespace=namespace,
        hold=hold,
        created_at=created_at,
        lease_until=lease_until,
        finished_at=finished_at,
        expires_at=expires_at,
        codec=codec,
        error=error,
        result=bytes(result),
        window=window,
        took_over=took_over,
        name=name,
        kept_key=kept_key,
    )
    return Found(record, now)


# The binary form


def boolean(value: bool) -> bytes:
    return TRUE if value else b"\0"


bigint = struct.Struct(">q").pack
integer = struct.Struct(">i").pack


def array(element: int, values: Sequence[bytes]) -> bytes:
    """One dimension, counted from 1, nothing missing."""
    head = _HEAD.pack(1, 0, element, len(values), 1)
    if len(values) == 1:
        return head + _SIZE.pack(len(values[0])) + values[0]
    parts = [head]
    for value in values:
        parts += (_SIZE.pack(len(value)), value)
    return b"".join(parts)


def elements_of(data: bytes) -> list[bytes]:
    """The elements of an array as `array` makes it."""
    elements, at = [], _HEAD.size
    while at < len(data):
        (size,) = _SIZE.unpack_from(data, at)
        start = at + _SIZE.size
        at = start + size
        elements.append(data[start:at])
    return elements


def bytes_array(values: Sequence[bytes]) -> bytes:
    return array(BYTES, values)


def text_array(values: Sequence[str]) -> bytes:
    return array(TEXT, [value.encode() for value in values])


def boolean_array(values: Sequence[bool]) -> bytes:
    return array(BOOLEAN, [boolean(value) for value in values])


def bigint_array(values: Sequence[int]) -> bytes:
    return array(BIGINT, [bigint(value) for value in values])


def integer_array(values: Sequence[int]) -> bytes:
    return array(INTEGER, [integer(value) for value in values])


def uuid_array(digests: Sequence[bytes]) -> bytes:
    """All of one size, so they can be joined by it."""
    elements = _UUID_SIZE + _UUID_SIZE.join(digests) if digests else b""
    return _HEAD.pack(1, 0, UUID, len(digests), 1) + elements


def uuids_of(data: bytes | None) -> list[bytes]:
    """The digests in an array the server sent; none in NULL."""
    if data is None:
        return []
    step = _SIZE.size + 16
    return [data[start : start + 16] for start in range(_HEAD.size + _SIZE.size, len(data), step)]


def fields_of(data: bytes) -> list[bytes]:
    """The fields of a row the server sent as one value; nothing for NULL."""
    fields, at = [], _SIZE.size
    while at < len(data):
        _, size = _FIELD.unpack_from(data, at)
        start = at + _FIELD.size
        at = start + size if size > 0 else start
        fields.append(data[start:at])
    return fields
