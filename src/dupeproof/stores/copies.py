"""The copies a fast tier keeps: their names, their bytes, and what can be answered from one. Reads no clock, does no I/O."""

import msgspec

from dupeproof.core.outcomes import Done, Mismatch
from dupeproof.core.records import ClaimRequest, Filling, Found, Kept, Reservation
from dupeproof.core.states import State

LARGEST = 65_536
"""Bytes of a result that is worth a copy."""

_encode = msgspec.msgpack.Encoder().encode
_decode = msgspec.msgpack.Decoder(tuple[int, str, bytes]).decode


def record_key(digest: bytes) -> bytes:
    return digest + b"r"


def mark_key(digest: bytes) -> bytes:
    return digest + b"s"


def record_place(request: ClaimRequest) -> Reservation:
    return Reservation(record_key(request.key), request.token, request.terms.window, request.fingerprint)


def pack(attempt: int, codec: str, result: bytes) -> bytes:
    return _encode((attempt, codec, result))


def answer(kept: Kept | None, request: ClaimRequest) -> Done | Mismatch | None:
    """What the durable tier would say. Fingerprints are compared first, as there."""
    if kept is None:
        return None
    if request.fingerprint and kept.fingerprint and request.fingerprint != kept.fingerprint:
        return Mismatch()
    attempt, codec, result = _decode(kept.value)
    return Done(result, codec, attempt)


def of_record(request: ClaimRequest, found: Found | None) -> Filling | None:
    """A copy of a finished record, for what is left of its window."""
    if found is None or found.record.state is not State.DONE or len(found.record.result) > LARGEST:
        return None
    record = found.record
    left = record.expires_at - found.now
    value = pack(record.attempt, record.codec, record.result)
    return Filling(record_key(request.key), request.token, left, value, record.fingerprint)
