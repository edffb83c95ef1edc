"""The bytes Redis keeps: key names, records and marks. The Lua scripts read and write the same layout."""

import struct
from collections.abc import Callable, Sequence
from functools import lru_cache
from typing import Any

from dupeproof.core import outcomes
from dupeproof.core.outcomes import Outcome
from dupeproof.core.records import (
    NEVER,
    ClaimRequest,
    Fail,
    Finish,
    Found,
    FoundMark,
    Mark,
    Record,
    Release,
    Renew,
)
from dupeproof.core.sequences import Number, Verdict
from dupeproof.core.states import State

TAGS = b"ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789-_"
"""The hash tag is one of 64 letters, taken from the digest: a batch on Cluster falls into at most 64 groups."""
RECORDS = b"dr{?}*"
MARKS = b"ds{?}*"
SEQUENCES = b"dq{?}*"
VERDICTS = {0: Verdict.FRESH, 1: Verdict.DUPLICATE, 2: Verdict.FENCED, 3: Verdict.TOO_OLD}
"""As advance.lua numbers them."""
_PLAIN_MARK = b"1"
_STATES = {b"r": State.RUNNING, b"d": State.DONE, b"f": State.FAILED, b"x": State.DEAD}
_HEAD = struct.Struct(">cc8sI16sQB")
_TAIL = struct.Struct(">QQB")
_NO_FINGERPRINT = bytes(16)
_BEFORE_TOKEN, _PAST_FINGERPRINT = 2, 30
"""Of the head: state and hold come before the token, the attempt between it and the fingerprint."""
_CLAIM = struct.Struct(">8s16sQQcI")
_RELEASE = struct.Struct(">8sQc")
_RENEW = struct.Struct(">8sQQ")
_NUMBER = struct.Struct(">QQI")


def tag(digest: bytes) -> int:
    return TAGS[digest[0] & 63]


def record_key(digest: bytes) -> bytes:
    return b"dr{%c}%b" % (TAGS[digest[0] & 63], digest)


def mark_key(digest: bytes) -> bytes:
    return b"ds{%c}%b" % (TAGS[digest[0] & 63], digest)


def place_key(key: bytes) -> bytes:
    """Of a shelf: a digest, and a letter for what it is a copy of."""
    return b"dt{%c}%b" % (TAGS[key[0] & 63], key)


def sequence_key(digest: bytes) -> bytes:
    return b"dq{%c}%b" % (TAGS[digest[0] & 63], digest)


def claim_command(request: ClaimRequest) -> bytes:
    """SET … NX GET PX: takes a free key, or shows what is there, in one step and without a script.

    Not for a claim under hold: its record outlives any time to live, so the lease must be written into it, by the
    server's clock.
    """
    terms, key = request.terms, request.key
    before_token, after_fingerprint = _around_claims(terms.namespace, terms.lease, terms.window)
    return b"*7\r\n$3\r\nSET\r\n$21\r\ndr{%c}%b%b%b\0\0\0\1%b%b" % (
        TAGS[key[0] & 63], key, before_token, request.token, request.fingerprint or _NO_FINGERPRINT, after_fingerprint,
    )  # fmt: skip


@lru_cache(256)
def _around_claims(namespace: str, lease: int, window: int) -> tuple[bytes, bytes]:
    """What stands before the token and after the fingerprint, in every claim of a guard."""
    named = namespace.encode()
    value = _HEAD.pack(b"r", b"-", b"", 1, b"", NEVER, len(named)) + named + _TAIL.pack(NEVER, window, 0)
    ttl = b"%d" % (lease + window)
    return (
        b"\r\n$%d\r\n%b" % (len(value), value[:_BEFORE_TOKEN]),
        b"%b\r\n$2\r\nNX\r\n$3\r\nGET\r\n$2\r\nPX\r\n$%d\r\n%b\r\n"
        % (value[_PAST_FINGERPRINT:], len(ttl), ttl),
    )


def claim_args(request: ClaimRequest) -> list[bytes]:
    terms = request.terms
    head = _CLAIM.pack(
        request.token,
        request.fingerprint,
        terms.lease,
        terms.window,
        b"h" if terms.hold else b"-",
        terms.max_attempts,
    )
    return [head + _short(terms.namespace)]


def finish_command(form: Callable[[list[bytes], list[bytes]], bytes], change: Finish) -> bytes:
    """The call of the script that closes a claim, in the form of its digest or in full."""
    return form([record_key(change.key)], finish_args(change))


def finish_args(change: Finish) -> list[bytes]:
    return [change.token + b"d", b"%d" % change.window, _tail(change.window, change.codec) + change.result]


def resolve_args(change: Finish) -> list[bytes]:
    return [change.token + change.resolver, *finish_args(change)[1:]]


def fail_args(change: Fail) -> list[bytes]:
    reached = b"x" if change.dead else b"f"
    return [change.token + reached, b"%d" % change.window, _tail(change.window, change.error)]


def release_args(change: Release) -> list[bytes]:
    return [_RELEASE.pack(change.token, change.window, b"o" if change.reopen else b"-")]


def renew_args(change: Renew) -> list[bytes]:
    return [_RENEW.pack(change.token, change.lease, change.window)]


def number_args(number: Number) -> list[bytes]:
    return [_NUMBER.pack(number.epoch, number.sequence, number.gap)]


def mark_commands(marks: Sequence[Mark]) -> list[bytes]:
    """SET … NX PX decides by itself, so marks need no script. Most have nothing but their key to say."""
    commands = []
    for mark in marks:
        window, value = b"%d" % mark.window, mark_value(mark)
        commands.append(
            b"*6\r\n$3\r\nSET\r\n$21\r\n%b\r\n$%d\r\n%b\r\n$2\r\nNX\r\n$2\r\nPX\r\n$%d\r\n%b\r\n"
            % (mark_key(mark.key), len(value), value, len(window), window)
        )
    return commands


def mark_value(mark: Mark) -> bytes:
    if not mark.token and not mark.meta:
        return _PLAIN_MARK  # a small number is shared by the server and costs no memory
    return mark_head(mark) + mark.meta


def mark_head(mark: Mark) -> bytes:
    return bytes([len(mark.token)]) + mark.token


def unmark_args(mark: Mark) -> list[bytes]:
    return [mark_head(mark)]


def info(reply: bytes) -> dict[str, str]:
    lines = reply.decode(errors="replace").splitlines()
    return dict(line.split(":", 1) for line in lines if ":" in line and not line.startswith("#"))


def outcome_at_once(raw: bytes | None, request: ClaimRequest) -> Outcome | None:
    """What SET … NX GET has decided; None where only the claim script can, because time or attempts come into it."""
    if raw is None:
        return outcomes.Won(1)
    state, _, token, attempt, fingerprint, _, length = _HEAD.unpack_from(raw)
    if request.fingerprint and fingerprint not in (request.fingerprint, _NO_FINGERPRINT):
        return outcomes.Mismatch()
    if state == b"d":
        label, result = _label_and_result(raw, _HEAD.size + length)
        return outcomes.Done(result, label, attempt)
    if state == b"x":
        return outcomes.Dead(attempt, token == request.token)
    return None


def outcome(answer: Sequence[Any]) -> Outcome:
    match answer:
        case [b"w", attempt, took_over]:
            return outcomes.Won(attempt, took_over == 1)
        case [b"d", raw]:
            record = unpack(raw, NEVER, NEVER)
            return outcomes.Done(record.result, record.codec, record.attempt)
        case [b"b", lease_left]:
            return outcomes.Busy(lease_left)
        case [b"m"]:
            return outcomes.Mismatch()
        case [b"h", attempt]:
            return outcomes.Held(attempt)
        case [b"x", attempt, newly]:
            return outcomes.Dead(attempt, newly == 1)
    raise AssertionError(f"the claim script gave an answer of unknown form with {len(answer)} parts")


def found(answer: Sequence[Any] | None) -> Found | None:
    if not answer:
        return None
    raw, ttl, now = answer
    return Found(unpack(raw, NEVER if ttl < 0 else now + ttl, now), now)


def found_mark(answer: Sequence[Any] | None) -> FoundMark | None:
    if not answer:
        return None
    raw, ttl, now = answer
    if raw == _PLAIN_MARK:
        return FoundMark(b"", now + ttl, now)
    return FoundMark(raw[1 + raw[0] :], now + ttl, now, returnable=raw[0] > 0)


def unpack(raw: bytes, expires_at: int, now: int) -> Record:
    state, hold, token, attempt, fingerprint, created_at, length = _HEAD.unpack_from(raw)
    at = _HEAD.size + length
    namespace = raw[_HEAD.size : at].decode()
    lease_until, window, _ = _TAIL.unpack_from(raw, at)
    label, result = _label_and_result(raw, at)
    running = state == b"r"
    if running and not lease_until and expires_at:
        lease_until = expires_at - window
    return Record(
        state=_STATES[state],
        token=token,
        attempt=attempt,
        fingerprint=b"" if fingerprint == _NO_FINGERPRINT else fingerprint,
        namespace=namespace,
        hold=hold == b"h",
        created_at=created_at,
        lease_until=lease_until,
        finished_at=NEVER if running or not expires_at else min(now, expires_at - window),
        expires_at=expires_at,
        codec=label if state == b"d" else "",
        error=label if state in (b"f", b"x") else "",
        result=result,
    )


def _label_and_result(raw: bytes, tail: int) -> tuple[str, bytes]:
    begin = tail + _TAIL.size
    end = begin + raw[begin - 1]
    return raw[begin:end].decode(errors="replace"), raw[end:]


def _tail(window: int, label: str) -> bytes:
    text = label.encode()[:255]
    return _TAIL.pack(NEVER, window, len(text)) + text


def _short(text: str) -> bytes:
    data = text.encode()[:255]
    return bytes([len(data)]) + data
