"""Rows of PostgreSQL as values of the contract, and back."""

from collections.abc import Iterable, Sequence
from typing import Any

from dupeproof.core import outcomes
from dupeproof.core.outcomes import Outcome
from dupeproof.core.records import ClaimRequest, Fail, Finish, Found, FoundMark, Mark, Record, Release, Renew
from dupeproof.core.states import State

Rows = list[tuple[Any, ...]]
Columns = list[list[Any]]


def keys_of(items: Iterable[Any]) -> list[str]:
    """Digests in the form the uuid type reads."""
    return [item.key.hex() for item in items]


def claim_columns(requests: Sequence[ClaimRequest]) -> Columns:
    return [
        keys_of(requests),
        [r.token for r in requests],
        [r.fingerprint for r in requests],
        [r.terms.namespace for r in requests],
        [r.terms.lease for r in requests],
        [r.terms.window for r in requests],
        [r.terms.hold for r in requests],
        [r.terms.max_attempts for r in requests],
    ]


def finish_columns(changes: Sequence[Finish]) -> Columns:
    return [
        keys_of(changes),
        [c.token for c in changes],
        [c.resolver for c in changes],
        [c.window for c in changes],
        [c.codec for c in changes],
        [c.result for c in changes],
    ]


def fail_columns(changes: Sequence[Fail]) -> Columns:
    return [
        keys_of(changes),
        [c.token for c in changes],
        [c.window for c in changes],
        [c.error for c in changes],
        [c.dead for c in changes],
    ]


def release_columns(changes: Sequence[Release]) -> Columns:
    return [
        keys_of(changes),
        [c.token for c in changes],
        [c.window for c in changes],
        [c.reopen for c in changes],
    ]


def renew_columns(changes: Sequence[Renew]) -> Columns:
    return [
        keys_of(changes),
        [c.token for c in changes],
        [c.lease for c in changes],
        [c.window for c in changes],
    ]


def mark_columns(marks: Sequence[Mark]) -> Columns:
    return [keys_of(marks), [m.window for m in marks], [m.token for m in marks], [m.meta for m in marks]]


def outcomes_of(rows: Rows) -> list[Outcome]:
    return [_outcome(*row) for _, *row in sorted(rows, key=lambda row: row[0])]


def answers_of(rows: Rows) -> list[bool]:
    return [ours for _, ours in sorted(rows)]


def found(rows: Rows, keys: Sequence[bytes]) -> list[Found | None]:
    by_key = {row[0].bytes: _found(*row[1:]) for row in rows}
    return [by_key.get(key) for key in keys]


def found_marks(rows: Rows, keys: Sequence[bytes]) -> list[FoundMark | None]:
    by_key = {key.bytes: FoundMark(bytes(meta), expires_at) for key, meta, expires_at in rows}
    return [by_key.get(key) for key in keys]


def _outcome(verdict: str, attempt: int, flag: bool, lease_left: int, codec: str, result: bytes) -> Outcome:
    match verdict:
        case "won":
            return outcomes.Won(attempt, flag)
        case "done":
            return outcomes.Done(bytes(result), codec, attempt)
        case "busy":
            return outcomes.Busy(lease_left)
        case "mismatch":
            return outcomes.Mismatch()
        case "held":
            return outcomes.Held(attempt)
        case "dead":
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
