"""Rows of PostgreSQL as values of the contract, and back."""

from collections.abc import Callable, Sequence
from functools import lru_cache
from typing import Any, Protocol, TypeVar

from psycopg.pq.abc import PGresult

from dupeproof.core import outcomes
from dupeproof.core.outcomes import Outcome
from dupeproof.core.records import (
    ClaimRequest,
    Fail,
    Finish,
    Found,
    FoundMark,
    Mark,
    Record,
    Release,
    Renew,
    Terms,
)
from dupeproof.core.states import State
from dupeproof.stores.postgres.binary import (
    bigint_array,
    boolean_array,
    bytes_array,
    integer_array,
    text_array,
    uuid_array,
)

T = TypeVar("T")
Rows = list[tuple[Any, ...]]
Columns = list[bytes]
_FIRST = outcomes.Won(1)
_ALONE = (0,)
_TRUE = b"\1"


class Keyed(Protocol):
    @property
    def key(self) -> bytes: ...


def in_order(items: Sequence[Keyed]) -> Sequence[int]:
    """Places, by key: the functions take keys in ascending order. Of equal keys the first stays first."""
    return _ALONE if len(items) == 1 else sorted(range(len(items)), key=lambda place: items[place].key)


def claim_columns(requests: Sequence[ClaimRequest]) -> Columns:
    terms = [r.terms for r in requests]
    return [
        uuid_array([r.key for r in requests]),
        bytes_array([r.token for r in requests]),
        bytes_array([r.fingerprint for r in requests]),
        *(_shared_terms(terms[0]) if _uniform(terms) else _terms_columns(terms)),
    ]


def finish_columns(changes: Sequence[Finish]) -> Columns:
    return [
        uuid_array([c.key for c in changes]),
        bytes_array([c.token for c in changes]),
        _shared(bytes_array, [c.resolver for c in changes]),
        _shared(bigint_array, [c.window for c in changes]),
        _shared(text_array, [c.codec for c in changes]),
        bytes_array([c.result for c in changes]),
    ]


def fail_columns(changes: Sequence[Fail]) -> Columns:
    return [
        uuid_array([c.key for c in changes]),
        bytes_array([c.token for c in changes]),
        _shared(bigint_array, [c.window for c in changes]),
        text_array([c.error for c in changes]),
        _shared(boolean_array, [c.dead for c in changes]),
    ]


def release_columns(changes: Sequence[Release]) -> Columns:
    return [
        uuid_array([c.key for c in changes]),
        bytes_array([c.token for c in changes]),
        _shared(bigint_array, [c.window for c in changes]),
        _shared(boolean_array, [c.reopen for c in changes]),
    ]


def renew_columns(changes: Sequence[Renew]) -> Columns:
    return [
        uuid_array([c.key for c in changes]),
        bytes_array([c.token for c in changes]),
        _shared(bigint_array, [c.lease for c in changes]),
        _shared(bigint_array, [c.window for c in changes]),
    ]


def mark_columns(marks: Sequence[Mark]) -> Columns:
    return [
        uuid_array([m.key for m in marks]),
        _shared(bigint_array, [m.window for m in marks]),
        _shared(bytes_array, [m.token for m in marks]),
        _shared(bytes_array, [m.meta for m in marks]),
    ]


def outcomes_of(result: PGresult, order: Sequence[int]) -> list[Outcome]:
    """The server tells of those that were not won at the first attempt."""
    answers: list[Outcome] = [_FIRST] * len(order)
    for row in range(result.ntuples):
        answers[order[_integer(result, row, 0) - 1]] = _outcome(result, row)
    return answers


def answers_of(result: PGresult, order: Sequence[int]) -> list[bool]:
    """The server tells of those that are no longer theirs."""
    answers = [True] * len(order)
    for row in range(result.ntuples):
        answers[order[_integer(result, row, 0) - 1]] = False
    return answers


def found(rows: Rows, keys: Sequence[bytes]) -> list[Found | None]:
    by_key = {row[0].bytes: _found(*row[1:]) for row in rows}
    return [by_key.get(key) for key in keys]


def found_marks(rows: Rows, keys: Sequence[bytes]) -> list[FoundMark | None]:
    by_key = {key.bytes: FoundMark(bytes(meta), expires_at) for key, meta, expires_at in rows}
    return [by_key.get(key) for key in keys]


def _uniform(values: list[Any]) -> bool:
    return bool(values) and values.count(values[0]) == len(values)


def _shared(array: Callable[[Sequence[T]], bytes], values: list[T]) -> bytes:
    """One element for all, where they are all the same, as they nearly always are."""
    return array(values[:1] if _uniform(values) else values)


def _terms_columns(terms: Sequence[Terms]) -> Columns:
    return [
        text_array([t.namespace for t in terms]),
        bigint_array([t.lease for t in terms]),
        bigint_array([t.window for t in terms]),
        boolean_array([t.hold for t in terms]),
        integer_array([t.max_attempts for t in terms]),
    ]


@lru_cache(1_000)
def _shared_terms(terms: Terms) -> Columns:
    return _terms_columns([terms])


def _integer(result: PGresult, row: int, column: int) -> int:
    return int.from_bytes(result.get_value(row, column) or b"", "big", signed=True)


def _outcome(result: PGresult, row: int) -> Outcome:
    """Columns: place, verdict, attempt, flag, lease_left, codec, result."""
    attempt = _integer(result, row, 2)
    match result.get_value(row, 1):
        case b"done":
            codec, value = result.get_value(row, 5), result.get_value(row, 6)
            return outcomes.Done(value or b"", (codec or b"").decode(), attempt)
        case b"won":
            return outcomes.Won(attempt, result.get_value(row, 3) == _TRUE)
        case b"busy":
            return outcomes.Busy(_integer(result, row, 4))
        case b"mismatch":
            return outcomes.Mismatch()
        case b"held":
            return outcomes.Held(attempt)
        case b"dead":
            return outcomes.Dead(attempt, result.get_value(row, 3) == _TRUE)
        case verdict:
            raise AssertionError(f"dupeproof_claim_v1 gave the unknown verdict {verdict!r}")


def _found(
    state: str, token: bytes, attempt: int, fingerprint: bytes, namespace: str, hold: bool, created_at: int,
    lease_until: int, finished_at: int, expires_at: int, codec: str, error: str, result: bytes, now: int,
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
    )
    return Found(record, now)
