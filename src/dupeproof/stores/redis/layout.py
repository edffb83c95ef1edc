"""The bytes Redis keeps: key names, records and marks. The Lua scripts read and write the same layout."""

import struct
from collections.abc import Callable, Sequence
from functools import lru_cache
from typing import Any

from msgspec.structs import replace

from dupeproof.core import outcomes
from dupeproof.core.outcomes import Outcome
from dupeproof.core.records import (
    NEVER,
    ClaimRequest,
    Fail,
    Finish,
    Found,
    FoundMark,
    Health,
    Mark,
    Record,
    Release,
    Renew,
    Terms,
)
from dupeproof.core.sequences import Number, Verdict
from dupeproof.core.states import State

TAGS = b"ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789-_"
"""The hash tag is one of 64 letters, taken from the digest: a batch on Cluster falls into at most 64 groups."""
RECORDS = b"dr{?}*"
INDEX = b"da{%c}"
"""Of a hash tag: the digests of records that have no end."""
MARKS = b"ds{?}*"
SEQUENCES = b"dq{?}*"
VERDICTS = {0: Verdict.FRESH, 1: Verdict.DUPLICATE, 2: Verdict.FENCED, 3: Verdict.TOO_OLD}
"""As advance.lua numbers them."""
_PLAIN_MARK = b"1"
_STATES = {b"r": State.RUNNING, b"d": State.DONE, b"s": State.RESOLVED, b"f": State.FAILED, b"x": State.DEAD}
_FINISHED = b"ds"
_HEAD = struct.Struct(">cc8sI16sQH")
_TAIL = struct.Struct(">QQB")
_NO_FINGERPRINT = bytes(16)
_BEFORE_TOKEN, _PAST_FINGERPRINT = 2, 30
"""Of the head: state and hold come before the token, the attempt between it and the fingerprint."""
_CLAIM = struct.Struct(">QI")
_RELEASE = struct.Struct(">8sQc")
_RENEW = struct.Struct(">8sQQ8s")
_NUMBER = struct.Struct(">QQI")


_RECORD_KEY_SIZE = len("dr{A}") + 16


def tag(digest: bytes) -> int:
    return TAGS[digest[0] & 63]


def record_key(digest: bytes) -> bytes:
    return b"dr{%c}%b" % (TAGS[digest[0] & 63], digest)


def is_record(name: bytes) -> bool:
    return len(name) == _RECORD_KEY_SIZE and name.startswith(b"dr{")


def records_that_begin_with(first: bytes) -> bytes:
    """A pattern for SCAN."""
    escaped = b"".join(b"\\%c" % byte if byte in b"*?[]\\^-" else b"%c" % byte for byte in first)
    return b"dr{%c}%b*" % (TAGS[first[0] & 63], escaped)


def mark_key(digest: bytes) -> bytes:
    return b"ds{%c}%b" % (TAGS[digest[0] & 63], digest)


def place_key(key: bytes) -> bytes:
    """Of a copy: a digest, and a letter for what it is a copy of."""
    return b"dt{%c}%b" % (TAGS[key[0] & 63], key)


def sequence_key(digest: bytes) -> bytes:
    return b"dq{%c}%b" % (TAGS[digest[0] & 63], digest)


class QuickClaim:
    """One claim without a script: SET … NX GET PX takes a free key, or shows what is there; TIME says when that was.

    The server has no way not to do it late. So the record says when it ends at the latest, if it was made in time:
    one that ends later was made when nobody waited for it any more, and is void. Whoever made it in time knows from the
    time that it is not.
    Not for a claim under hold: its record has no end, so the lease must be written into it, by the server's clock.
    """

    __slots__ = ("_request", "deadline")

    def __init__(self, request: ClaimRequest) -> None:
        self._request = request
        self.deadline = 0

    def pack(self, deadline: int) -> bytes:
        self.deadline = deadline
        request = self._request
        key, ttl = request.key, request.terms.lease + request.terms.window
        before_token, after_fingerprint, after_lease = _around_claims(request.terms)
        return b"*7\r\n$3\r\nSET\r\n$21\r\ndr{%c}%b%b%b\0\0\0\1%b%b%b%b" % (
            TAGS[key[0] & 63], key, before_token, request.token, request.fingerprint or _NO_FINGERPRINT,
            after_fingerprint, (deadline + ttl).to_bytes(8, "big"), after_lease,
        )  # fmt: skip

    def outcome(self, raw: bytes | None, now: Sequence[bytes]) -> Outcome | None:
        """What was decided; None where only the script can, because time or attempts come into it."""
        if raw is None:
            return _FIRST if int(now[0]) * 1_000 + int(now[1]) // 1_000 <= self.deadline else None
        wanted = self._request.fingerprint
        if wanted and raw[_FINGERPRINT] not in (wanted, _NO_FINGERPRINT):
            return outcomes.Mismatch()
        return _done(raw) if raw[0] == _DONE else None


_DONE = ord(b"d")
_FINGERPRINT = slice(14, 30)
_FIRST = outcomes.Won(1)


@lru_cache(256)
def _around_claims(terms: Terms) -> tuple[bytes, bytes, bytes]:
    """What stands before the token, after the fingerprint and after the lease, in every claim of a guard."""
    record, ttl, _ = _claimed(terms, b"", b"", "")
    lease = len(record) - _TAIL.size
    return (
        b"\r\n$%d\r\n%b" % (len(record), record[:_BEFORE_TOKEN]),
        record[_PAST_FINGERPRINT:lease],
        b"%b\r\n$2\r\nNX\r\n$3\r\nGET\r\n$2\r\nPX\r\n$%d\r\n%b\r\n*1\r\n$4\r\nTIME\r\n"
        % (record[lease + 8 :], len(ttl), ttl),
    )


def claim_args(request: ClaimRequest) -> list[bytes]:
    return _claimed(request.terms, request.token, request.fingerprint, request.kept_key)


def _claimed(terms: Terms, token: bytes, fingerprint: bytes, kept_key: str) -> list[bytes]:
    """The record of a first attempt, its time to live, and what only other attempts need."""
    named = _labels(terms, kept_key)
    hold = b"h" if terms.hold else b"-"
    record = _HEAD.pack(b"r", hold, token, 1, fingerprint, NEVER, len(named)) + named
    record += _TAIL.pack(NEVER, terms.window, 0)
    return [record, b"%d" % (terms.lease + terms.window), _CLAIM.pack(terms.lease, terms.max_attempts)]


def finish_command(form: Callable[[list[bytes], list[bytes]], bytes], change: Finish) -> bytes:
    """The call of the script that closes a claim, in the form of its digest or in full."""
    return form([record_key(change.key)], finish_args(change))


def finish_args(change: Finish) -> list[bytes]:
    return [change.token + b"d", b"%d" % change.window, _tail(change.window, change.codec) + change.result]


def resolve_args(change: Finish) -> list[bytes]:
    return [change.token + change.resolver, *finish_args(change)[1:]]


def fail_args(change: Fail) -> list[bytes]:
    reached = b"h" if change.hold else b"x" if change.dead else b"f"
    return [change.token + reached, b"%d" % change.window, _tail(change.window, change.error, change.since)]


def release_args(change: Release) -> list[bytes]:
    return [_RELEASE.pack(change.token, change.window, b"o" if change.reopen else b"-")]


def renew_args(change: Renew) -> list[bytes]:
    return [_RENEW.pack(change.token, change.lease, change.window, change.taker), change.journal]


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


def health(facts: dict[str, str]) -> Health:
    """What a server says of itself; Valkey has its own words for some of it."""
    version = facts.get("valkey_version") or facts["redis_version"]
    mode = facts.get("redis_mode") or facts.get("server_mode", "")
    return Health(store=facts.get("server_name", "redis"), version=version, details={"mode": mode})


def info(reply: bytes) -> dict[str, str]:
    lines = reply.decode(errors="replace").splitlines()
    return dict(line.split(":", 1) for line in lines if ":" in line and not line.startswith("#"))


def outcome(answer: Any) -> Outcome:
    if answer == 0:
        return _FIRST
    if type(answer) is bytes:
        return _done(answer)
    match answer:
        case [b"w", attempt, took_over]:
            return outcomes.Won(attempt, took_over == 1)
        case [b"b", lease_left]:
            return outcomes.Busy(lease_left)
        case [b"m"]:
            return outcomes.Mismatch()
        case [b"h", attempt]:
            return outcomes.Held(attempt)
        case [b"x", attempt, newly]:
            return outcomes.Dead(attempt, newly == 1)
    raise AssertionError(f"the claim script gave an answer of unknown form with {len(answer)} parts")


def _done(raw: bytes) -> Outcome:
    _, _, _, attempt, _, _, length = _HEAD.unpack_from(raw)
    label, result = _label_and_result(raw, _HEAD.size + length)
    return outcomes.Done(result, label, attempt)


def found(answer: Sequence[Any] | None) -> Found | None:
    if not answer:
        return None
    raw, expires_at, now = answer
    record = unpack(raw, max(NEVER, expires_at), now)
    return None if record is None else Found(record, now)


def listed(answer: Sequence[Any]) -> list[tuple[bytes, Found]]:
    """What a page of the index has, without what is void."""
    now, _, rows, _ = answer
    pairs = ((digest, unpack(raw, max(NEVER, expires_at), now)) for digest, raw, expires_at in rows)
    return [
        (digest, Found(replace(record, result=b""), now)) for digest, record in pairs if record is not None
    ]


def found_mark(answer: Sequence[Any] | None) -> FoundMark | None:
    if not answer:
        return None
    raw, expires_at, now = answer
    if raw == _PLAIN_MARK:
        return FoundMark(b"", expires_at, now)
    return FoundMark(raw[1 + raw[0] :], expires_at, now, returnable=raw[0] > 0)


def unpack(raw: bytes, expires_at: int, now: int) -> Record | None:
    """None for a claim that is void, because it was made too late."""
    state, hold, token, attempt, fingerprint, created_at, length = _HEAD.unpack_from(raw)
    at = _HEAD.size + length
    namespace, name, kept_key = _named(raw[_HEAD.size : at])
    lease_until, window, _ = _TAIL.unpack_from(raw, at)
    label, result = _label_and_result(raw, at)
    if state == b"r" and expires_at:
        if 0 < lease_until < expires_at:
            return None
        lease_until = expires_at - window
    return Record(
        state=_STATES[state],
        token=token,
        attempt=attempt,
        fingerprint=b"" if fingerprint == _NO_FINGERPRINT else fingerprint,
        namespace=namespace,
        hold=hold in (b"h", b"H"),
        created_at=created_at,
        lease_until=lease_until,
        finished_at=_finished_at(state, lease_until, window, expires_at, now),
        expires_at=expires_at,
        codec=label if state in _FINISHED else "",
        error="" if state in _FINISHED else label,
        result=result,
        window=window,
        took_over=hold in (b"t", b"H"),
        name=name,
        kept_key=kept_key,
    )


def _labels(terms: Terms, kept_key: str) -> bytes:
    named = terms.namespace.encode()[:255]
    if terms.name or kept_key:
        named += b"\0" + terms.name.encode()
    return named + b"\0" + kept_key.encode() if kept_key else named


def _named(labels: bytes) -> tuple[str, str, str]:
    namespace, _, rest = labels.decode().partition("\0")
    name, _, kept_key = rest.partition("\0")
    return namespace, name, kept_key


def _finished_at(state: bytes, lease_until: int, window: int, expires_at: int, now: int) -> int:
    if state == b"x":
        return lease_until
    return NEVER if state == b"r" or not expires_at else min(now, expires_at - window)


def _label_and_result(raw: bytes, tail: int) -> tuple[str, bytes]:
    begin = tail + _TAIL.size
    end = begin + raw[begin - 1]
    return raw[begin:end].decode(errors="replace"), raw[end:]


def _tail(window: int, label: str, since: int = NEVER) -> bytes:
    text = label.encode()[:255]
    return _TAIL.pack(since, window, len(text)) + text
