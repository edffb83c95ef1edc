"""Rows of PostgreSQL as values of the contract, and back."""

from collections.abc import Sequence
from typing import Any, Protocol, TypeVar

from psycopg.pq.abc import PGresult

from dupeproof.core import outcomes
from dupeproof.core.outcomes import Outcome
from dupeproof.core.records import ClaimRequest, Fail, Finish, Found, FoundMark, Mark, Record, Release, Renew
from dupeproof.core.states import State
from dupeproof.stores.postgres.binary import (
    bigint_array,
    boolean_array,
    bytes_array,
    integer_array,
    integer_of,
    text_array,
    uuid_array,
)

T = TypeVar("T")
Rows = list[tuple[Any, ...]]
Columns = list[bytes]
_FIRST = outcomes.Won(1)


class Keyed(Protocol):
    @property
    def key(self) -> bytes: ...


def in_order(items: Sequence[Keyed]) -> list[int]:
    """Places, by key: the functions take keys in ascending order. Of equal keys the first stays first."""
    return sorted(range(len(items)), key=lambda place: items[place].key)


def claim_columns(requests: Sequence[ClaimRequest]) -> Columns:
    terms = _shared([r.terms for r in requests])
    return [
        uuid_array([r.key for r in requests]),
        bytes_array([r.token for r in requests]),
        bytes_array(_shared([r.fingerprint for r in requests])),
        text_array([t.namespace for t in terms]),
        bigint_array([t.lease for t in terms]),
        bigint_array([t.window for t in terms]),
        boolean_array([t.hold for t in terms]),
        integer_array([t.max_attempts for t in terms]),
    ]


def finish_columns(changes: Sequence[Finish]) -> Columns:
    return [
        uuid_array([c.key for c in changes]),
        bytes_array([c.token for c in changes]),
        bytes_array(_shared([c.resolver for c in changes])),
        bigint_array(_shared([c.window for c in changes])),
        text_array(_shared([c.codec for c in changes])),
        bytes_array([c.result for c in changes]),
    ]


def fail_columns(changes: Sequence[Fail]) -> Columns:
    return [
        uuid_array([c.key for c in changes]),
        bytes_array([c.token for c in changes]),
        bigint_array(_shared([c.window for c in changes])),
        text_array(_shared([c.error for c in changes])),
        boolean_array(_shared([c.dead for c in changes])),
    ]


def release_columns(changes: Sequence[Release]) -> Columns:
    return [
        uuid_array([c.key for c in changes]),
        bytes_array([c.token for c in changes]),
        bigint_array(_shared([c.window for c in changes])),
        boolean_array(_shared([c.reopen for c in changes])),
    ]


def renew_columns(changes: Sequence[Renew]) -> Columns:
    return [
        uuid_array([c.key for c in changes]),
        bytes_array([c.token for c in changes]),
        bigint_array(_shared([c.lease for c in changes])),
        bigint_array(_shared([c.window for c in changes])),
    ]


def mark_columns(marks: Sequence[Mark]) -> Columns:
    return [
        uuid_array([m.key for m in marks]),
        bigint_array(_shared([m.window for m in marks])),
        bytes_array(_shared([m.token for m in marks])),
        bytes_array(_shared([m.meta for m in marks])),
    ]


def outcomes_of(result: PGresult, order: Sequence[int]) -> list[Outcome]:
    """The server tells of those that were not won at the first attempt."""
    answers: list[Outcome] = [_FIRST] * len(order)
    for row in range(result.ntuples):
        place, verdict, attempt, flag, lease_left, codec, data = (
            result.get_value(row, column) or b"" for column in range(7)
        )
        answers[order[integer_of(place) - 1]] = _outcome(
            verdict, integer_of(attempt), flag == b"\1", integer_of(lease_left), codec, data
        )
    return answers


def answers_of(result: PGresult, order: Sequence[int]) -> list[bool]:
    """The server tells of those that are no longer theirs."""
    answers = [True] * len(order)
    for row in range(result.ntuples):
        answers[order[integer_of(result.get_value(row, 0) or b"") - 1]] = False
    return answers


def found(rows: Rows, keys: Sequence[bytes]) -> list[Found | None]:
    by_key = {row[0].bytes: _found(*row[1:]) for row in rows}
    return [by_key.get(key) for key in keys]


def found_marks(rows: Rows, keys: Sequence[bytes]) -> list[FoundMark | None]:
    by_key = {key.bytes: FoundMark(bytes(meta), expires_at) for key, meta, expires_at in rows}
    return [by_key.get(key) for key in keys]


def _shared(values: list[T]) -> list[T]:
    """One for all, where they are all the same, as they nearly always are."""
    return values[:1] if not values or values.count(values[0]) == len(values) else values


def _outcome(
    verdict: bytes, attempt: int, flag: bool, lease_left: int, codec: bytes, result: bytes
) -> Outcome:
    match verdict:
        case b"won":
            return outcomes.Won(attempt, flag)
        case b"done":
            return outcomes.Done(result, codec.decode(), attempt)
        case b"busy":
            return outcomes.Busy(lease_left)
        case b"mismatch":
            return outcomes.Mismatch()
        case b"held":
            return outcomes.Held(attempt)
        case b"dead":
            return outcomes.Dead(attempt, flag)
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
