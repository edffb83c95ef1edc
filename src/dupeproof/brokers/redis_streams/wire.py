"""How messages look in a stream: fields of one entry. Pure."""

from collections.abc import Mapping
from datetime import UTC, datetime
from typing import Any

import msgspec

from dupeproof.brokers.base import ATTEMPTS, ORIGIN, REASON, UNUSABLE_ID, Delivery, dead_headers
from dupeproof.brokers.ids import delivery
from dupeproof.keys.message_ids import from_headers, from_others
from dupeproof.outbox.messages import Message

Fields = dict[str, str | bytes]
_OURS = {"id", "body", "key", "type", "headers"}


def published(message: Message) -> Fields:
    return _fields(message.id, message.payload, message.key, message.type, message.headers)


def dead_letter(each: Delivery, reason: str, stream: str) -> dict[bytes, bytes]:
    """The entry as it was, field by field, and why it is here."""
    _, fields = each.message.raw
    ours = {name.encode(): value.encode() for name, value in dead_headers(each, reason, stream).items()}
    if each.fault is not None:
        fields = {UNUSABLE_ID.encode() if name == b"id" else name: value for name, value in fields.items()}
    elif each.sender_id is not None:
        fields = {b"id": each.sender_id.encode(), **fields}
    return {**fields, **ours}


_OF_DEAD = {name.encode() for name in (REASON, ATTEMPTS, ORIGIN)}


def revived(fields: Mapping[bytes, bytes]) -> dict[bytes, bytes]:
    """A dead letter as the entry it was."""
    unusable = UNUSABLE_ID.encode()
    return {
        b"id" if name == unusable else name: value for name, value in fields.items() if name not in _OF_DEAD
    }


def _fields(ident: str | None, body: bytes, key: str | None, kind: str, headers: Mapping[str, str]) -> Fields:
    fields: Fields = {"body": body}
    for name, value in {"id": ident, "key": key, "type": kind}.items():
        if value:
            fields[name] = value
    if headers:
        fields["headers"] = msgspec.json.encode(headers)
    return fields


def received(stream: str, entry: bytes, fields: Mapping[bytes, bytes], *, attempt: int) -> Delivery:
    """Ours, or an entry of someone else: then all its fields are headers, and the one called `body` is the body."""
    texts = {name.decode(errors="replace"): value for name, value in fields.items()}
    key, body, headers = texts.get("key"), texts.get("body", b""), _headers(texts)
    return delivery(
        lambda: (
            from_headers({"id": texts.get("id")}, "id", missing="pass") or from_others(headers, body=body)
        ),
        entry,
        body=body,
        headers=headers,
        topic=stream,
        key=None if key is None else key.decode(errors="replace"),
        type=texts.get("type", b"").decode(errors="replace"),
        timestamp=datetime.fromtimestamp(int(entry.partition(b"-")[0]) / 1_000, UTC),
        position=entry.decode(),
        attempt=attempt,
        redelivered=attempt > 1,
        raw=(entry, fields),
    )


def _headers(fields: Mapping[str, bytes]) -> dict[str, str]:
    try:
        stored: Any = msgspec.json.decode(fields.get("headers", b"{}"), type=dict[str, str])
    except msgspec.DecodeError:
        stored = {"headers": fields["headers"].decode(errors="replace")}
    others = {name: value.decode(errors="replace") for name, value in fields.items() if name not in _OURS}
    return {**others, **stored}
