"""How messages look on NATS: an id that the server knows too, and headers. Pure."""

import base64
import re
from collections.abc import Mapping
from typing import Any
from zlib import crc32

from dupeproof.brokers.base import (
    ATTEMPTS,
    ORIGIN,
    REASON,
    TOPIC,
    UNUSABLE_ID,
    Delivery,
    dead_headers,
    dead_name,
)
from dupeproof.brokers.errors import NotDeadLettered, NotPublished
from dupeproof.brokers.ids import delivery
from dupeproof.errors import ConfigError
from dupeproof.keys.message_ids import from_headers, from_others
from dupeproof.outbox.messages import Message

ID, KEY, TYPE = "Nats-Msg-Id", "dupeproof-key", "dupeproof-type"
ORIGINAL = "dupeproof-id"
"""The id of a message. What NATS calls its id is another one, or it would take for a duplicate what is none."""
_IDS = (ID.lower(), ORIGINAL)
_CONTROL = "nats-"
"""How headers begin that are commands to the server, such as `Nats-Expected-Stream`, `Nats-Rollup` and `Nats-TTL`."""
_RENAMED = "dupeproof-"
"""What they begin with in a copy: there, the server would do it once more, or refuse the copy."""
DROPPED = "dupeproof-dropped"
"""Names of headers for which there was no room, since ours are added to a message that may be as large as the server takes."""
_NAME = re.compile(r"[!-9;-~]+")
_FRAME = len(b"NATS/1.0\r\n\r\n")
_FIELD = len(b": \r\n")
_LONGEST_LIST = 1_000
_SHORTEST_REASON = 20
"""Bytes: less is of no use to anybody."""
_NOT_IN_NAMES = re.compile(r"[^A-Za-z0-9_-]")


def published(message: Message) -> dict[str, str]:
    """A stream compares ids over all of its subjects, and confirms what it drops: an event for two of them needs two ids.

    A subject has no white space, so no two pairs of subject and id look the same.
    """
    ident = f"{message.topic} {message.id}"
    return _headers(ident, message.id, message.key, message.type, message.headers)


def unfit(message: Message, max_payload: int) -> NotPublished | None:
    """The server counts headers and payload together, and hangs up on what is larger. The driver looks at the payload only."""
    try:
        headers = published(message)
    except NotPublished as exc:
        return exc
    size = _size(headers, message.payload)
    if size <= max_payload:
        return None
    return NotPublished(
        f"the message has {size:,} bytes with its headers, and NATS takes {max_payload:,}; raise max_payload in its "
        "configuration, or keep the payload elsewhere and send where it is",
        reason="unfit",
    )


def _size(headers: Mapping[str, str], payload: bytes) -> int:
    fields = sum(_FIELD + len(name) + len(value.encode()) for name, value in headers.items())
    return _FRAME + fields + len(payload)


def dead_letter(each: Delivery, reason: str, subject: str, max_payload: int) -> dict[str, str]:
    """The headers of a dead letter: the message's own, as far as there is room, and ours."""
    message, metadata = each.message, each.receipt[1].metadata
    ours = {
        ID: f"dead-{metadata.stream}-{metadata.sequence.stream}",
        **dead_headers(each, " ".join(reason.split()), subject),
        TOPIC: message.topic,
    }
    if each.sender_id is not None and _is_fit(ORIGINAL, each.sender_id):
        ours[ORIGINAL] = each.sender_id
    named = {KEY: message.key or "", TYPE: message.type, UNUSABLE_ID: _unusable_id(each)}
    headers = {**message.headers, **{name: value for name, value in named.items() if value}}
    headers = {
        f"{_RENAMED}{name}" if name.lower().startswith(_CONTROL) else name: value
        for name, value in headers.items()
        if name.lower() not in _IDS and name not in ours and _is_fit(name, value)
    }
    return _fitting(headers, ours, message.body, max_payload)


def revived(headers: Mapping[str, str], ident: str) -> dict[str, str]:
    """The headers of a dead letter as those of the message it was. To the server it is another one, known as `ident`: under the
    id that the message had, it would drop it as a duplicate. One without an id stays without, which takes up both.
    """
    theirs = {
        f"{_RENAMED}{name}" if name.lower().startswith(_CONTROL) else name: value
        for name, value in headers.items()
        if name not in _OF_DEAD and name.lower() not in _IDS
    }
    known = headers.get(UNUSABLE_ID) or headers.get(ORIGINAL)
    if not known and REASON not in headers:  # a dead letter of ours has in there what we have called it
        known = headers.get(ID)
    return {**theirs, ORIGINAL: known, ID: ident} if known else theirs


_OF_DEAD = {REASON, ATTEMPTS, ORIGIN, TOPIC, UNUSABLE_ID}


def _unusable_id(each: Delivery) -> str:
    if each.fault is None:
        return ""
    theirs: Mapping[str, str] = each.message.raw.headers or {}
    return theirs.get(ORIGINAL) or theirs.get(ID) or ""


def _fitting(headers: dict[str, str], ours: dict[str, str], body: bytes, max_payload: int) -> dict[str, str]:
    """Without the largest, where they do not fit, and at last with a shorter reason. The server hangs up on what is larger."""
    dropped: list[str] = []
    while (over := _size({**headers, **ours}, body) - max_payload) > 0 and headers:
        largest = max(headers, key=lambda name: len(name) + len(headers[name].encode()))
        dropped.append(largest)
        headers = {name: value for name, value in headers.items() if name != largest}
        ours[DROPPED] = ", ".join(dropped)[:_LONGEST_LIST]
    if over > 0 and dropped:
        over -= _FIELD + len(DROPPED) + len(ours.pop(DROPPED))
    if over > 0:
        kept = ours[REASON].encode()[:-over]
        if len(kept) < _SHORTEST_REASON:
            raise NotDeadLettered(
                f"its payload has {len(body):,} bytes, and NATS takes {max_payload:,} with the headers that a dead letter needs; "
                "raise max_payload in its configuration",
                reason="unfit",
            )
        ours[REASON] = kept.decode(errors="ignore").strip()
    return {**headers, **ours}


def _headers(
    ident: str, original: str | None, key: str | None, kind: str, others: Mapping[str, str]
) -> dict[str, str]:
    """The driver would quietly change what cannot be in a header, and two ids could become one: refused here.

    Of the message's own headers none may pass for ours: ids are found in whatever case their header has.
    """
    named = {ID: ident, ORIGINAL: original, KEY: key, TYPE: kind}
    ours = {name: value for name, value in named.items() if value}
    others = {name: value for name, value in others.items() if name.lower() not in _IDS}
    for name, value in {**others, **ours}.items():
        if not _is_fit(name, value):
            raise NotPublished(
                f"{name!r:.60} cannot be a header of NATS: names are of visible ASCII without a colon, "
                "values have no line breaks and no white space around them",
                reason="unfit",
            )
    return {**others, **ours}


def _is_fit(name: str, value: str) -> bool:
    return bool(_NAME.fullmatch(name) and value == value.strip() and "\n" not in value and "\r" not in value)


def received(message: Any, receipt: Any, uncounted: int) -> Delivery:
    metadata = message.metadata
    return _delivery(
        message.headers or {},
        message.data,
        receipt,
        topic=message.subject,
        timestamp=metadata.timestamp,
        position=metadata.sequence.stream,
        raw=message,
        attempt=max(1, metadata.num_delivered - uncounted),
        redelivered=metadata.num_delivered > 1,
    )


def stored(raw: Any, headers: Mapping[str, str], subject: str) -> Delivery:
    """As it will be received with these headers; `raw` is what the server has."""
    return _delivery(
        headers, raw.data or b"", None, topic=subject, timestamp=raw.time, position=raw.seq, raw=raw
    )


def headers_of(raw: Any) -> dict[str, str]:
    """Of what the server has stored. The driver reads them as those of a mail, and spoils what is not ASCII."""
    lines = base64.b64decode(raw.hdrs or b"").decode(errors="replace").split("\r\n")[1:]
    pairs = [line.partition(":") for line in lines if line]
    return {name: value.strip() for name, _, value in pairs}


def _delivery(headers: Mapping[str, str], body: bytes, receipt: Any, **fields: Any) -> Delivery:
    return delivery(
        lambda: (
            from_headers(headers, ORIGINAL if ORIGINAL in headers else ID, missing="pass")
            or from_others(headers, body=body)
        ),
        receipt,
        body=body,
        headers={name: value for name, value in headers.items() if name not in (ID, KEY, TYPE, ORIGINAL)},
        key=headers.get(KEY),
        type=headers.get(TYPE, ""),
        **fields,
    )


def dead_subject(subject: str, given: str | None) -> str:
    """Where dead letters go. One that the consumer itself would read is refused: they would come back for ever."""
    usual = (
        f"dead.{subject.replace('*', '_').replace('>', '_')}"
        if has_wildcards(subject)
        else dead_name(subject)
    )
    dead = usual if given is None else given
    if _matches(subject, dead):
        raise ConfigError(
            f"dead letters of {subject!r} would go to {dead!r}, which this consumer reads itself; choose another with dead="
        )
    return dead


def has_wildcards(subject: str) -> bool:
    return not {"*", ">"}.isdisjoint(subject.split("."))


def _matches(pattern: str, subject: str) -> bool:
    wanted, parts = pattern.split("."), subject.split(".")
    if wanted[-1] == ">":
        wanted, parts = wanted[:-1], parts[: max(len(wanted) - 1, 0)] if len(parts) >= len(wanted) else []
    return len(wanted) == len(parts) and all(
        each in ("*", part) for each, part in zip(wanted, parts, strict=True)
    )


def plain_name(text: str) -> str:
    """As streams and durable consumers may be called; what had to be changed is distinguished by a digest."""
    plain = _NOT_IN_NAMES.sub("_", text)
    return plain if plain == text else f"{plain}-{crc32(text.encode()):08x}"
