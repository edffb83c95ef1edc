"""How messages look on Kafka. Pure."""

import re
from collections.abc import Iterable, Mapping
from datetime import UTC, datetime
from typing import Any, NamedTuple

from msgspec import UNSET, Struct, UnsetType

from dupeproof.brokers import base
from dupeproof.brokers.base import Delivery, dead_headers
from dupeproof.brokers.errors import NotPublished
from dupeproof.brokers.ids import delivery
from dupeproof.errors import ConfigError
from dupeproof.keys.message_ids import from_kafka, from_others
from dupeproof.outbox.messages import Message

ID, TYPE = "message-id", "message-type"
PARTITION, OFFSET, TIMESTAMP = "dupeproof-partition", "dupeproof-offset", "dupeproof-timestamp"
"""Headers of a dead letter: where the message lay, and its time in milliseconds since 1970.

The dead letter itself has the time of its writing: with an old one, the topic's retention could remove it at once.
"""
_TOPIC = re.compile(r"[a-zA-Z0-9._-]{1,249}")
_NO_TIMESTAMP = 0
Record = dict[str, Any]
"""The arguments of the driver's `produce`, without the topic."""
Headers = list[tuple[str, bytes | None]]
"""As Kafka has them: in order, a name as often as it was given, and None told apart from nothing."""
Place = tuple[str, int]
"""A topic and a partition of it."""


class Receipt(NamedTuple):
    """Where a message lay, and under which name its partition was ours then."""

    place: Place
    offset: int
    owner: str


class Output(Struct, frozen=True):
    """A message to be written, byte by byte as it will be read."""

    topic: str
    value: bytes | None
    """None is a tombstone: in a compacted topic it removes what had its key."""
    key: bytes | None = None
    headers: Headers = []

    @property
    def record(self) -> Record:
        return {"value": self.value, "key": self.key, "headers": self.headers}


def unfit(message: Message | Output) -> NotPublished | None:
    if _TOPIC.fullmatch(message.topic) and message.topic not in (".", ".."):
        return None
    text = "a topic of Kafka is called by up to 249 letters, digits, dots, dashes and underscores"
    return NotPublished(f"{message.topic!r:.60} is no topic: {text}", reason="unfit")


def published(message: Message) -> Record:
    ours = {name: value for name, value in {ID: message.id, TYPE: message.type}.items() if value}
    key = None if message.key is None else message.key.encode()
    return {"value": message.payload, "key": key, "headers": _encoded({**message.headers, **ours})}


def forward(
    message: base.Message,
    topic: str,
    *,
    value: bytes | UnsetType | None = UNSET,
    key: bytes | UnsetType | None = UNSET,
    headers: Iterable[tuple[str, bytes | None]] | UnsetType = UNSET,
) -> Output:
    """A message of Kafka as it came, for another topic: its id and type, bytes of any kind, tombstones, every header in order.

    For the handler of a `Transformer`. What is given takes the place of what came.
    """
    raw = message.raw
    if not callable(getattr(raw, "partition", None)):
        raise ConfigError(
            "forward takes a message that a handler was given by Kafka; others have no record to copy"
        )
    return Output(
        topic,
        raw.value() if value is UNSET else value,
        raw.key() if key is UNSET else key,
        list(raw.headers() or []) if headers is UNSET else [*headers],
    )


def dead_letter(each: Delivery, reason: str) -> Output:
    """The message as it came, with our headers after its own."""
    message, raw = each.message, each.message.raw
    kind, milliseconds = raw.timestamp()
    ours = {
        **dead_headers(each, reason, message.topic),
        PARTITION: str(message.partition),
        OFFSET: str(message.position),
        **({} if kind == _NO_TIMESTAMP else {TIMESTAMP: str(milliseconds)}),
    }
    theirs = [
        (base.UNUSABLE_ID if each.fault is not None and name.lower() == ID else name, value)
        for name, value in raw.headers() or []
        if name not in ours
    ]
    if each.sender_id is not None and all(name != ID for name, _ in theirs):
        ours[ID] = each.sender_id  # read from elsewhere by id_of
    return forward(message, base.dead_name(message.topic), headers=[*theirs, *_encoded(ours)])


_OF_DEAD = {base.REASON, base.ATTEMPTS, base.ORIGIN, PARTITION, OFFSET, TIMESTAMP}


def revived(raw: Any, topic: str) -> "Revived":
    """A dead letter as the record it was, without our headers."""
    theirs = [
        (ID if name == base.UNUSABLE_ID else name, value)
        for name, value in raw.headers() or []
        if name not in _OF_DEAD
    ]
    return Revived(raw, Output(topic, raw.value(), raw.key(), theirs))


class Revived(NamedTuple):
    """Read as a message of Kafka's library is."""

    raw: Any
    output: Output

    def topic(self) -> str:
        return self.output.topic

    def key(self) -> bytes | None:
        return self.output.key

    def value(self) -> bytes | None:
        return self.output.value

    def headers(self) -> Headers:
        return self.output.headers

    def partition(self) -> int:
        return int(self.raw.partition())

    def offset(self) -> int:
        return int(self.raw.offset())

    def timestamp(self) -> tuple[int, int]:
        kind, milliseconds = self.raw.timestamp()
        return kind, milliseconds


def told(raw: Any) -> dict[str, str]:
    """Headers as texts; the last of each name."""
    return {name: _text(value) for name, value in raw.headers() or []}


def moment(raw: Any) -> datetime | None:
    kind, milliseconds = raw.timestamp()
    return None if kind == _NO_TIMESTAMP else _moment(milliseconds)


def _encoded(headers: Mapping[str, str]) -> Headers:
    return [(name, value.encode()) for name, value in headers.items()]


def received(message: Any, owner: str, *, redelivered: bool = False) -> Delivery:
    key = message.key()
    place = message.topic(), message.partition()
    pairs: Headers = message.headers() or []
    headers = {name: _text(value) for name, value in pairs}
    return delivery(
        lambda: from_kafka(message, ID, missing="pass") or from_others(pairs, body=message.value() or b""),
        Receipt(place, message.offset(), owner),
        partition_key=f"{place[0]}:{place[1]}",  # a partition is read in order, and its offset has no gaps
        body=message.value() or b"",
        headers={name: value for name, value in headers.items() if name not in (ID, TYPE)},
        topic=place[0],
        key=None if key is None else _text(key),
        type=headers.get(TYPE, ""),
        timestamp=moment(message),
        partition=place[1],
        position=message.offset(),
        raw=message,
        redelivered=redelivered,
    )


def _moment(milliseconds: int) -> datetime | None:
    try:
        return datetime.fromtimestamp(milliseconds / 1_000, UTC)
    except (OverflowError, ValueError, OSError):
        return None  # a sender may claim any time


def _text(value: bytes | None) -> str:
    return "" if value is None else value.decode(errors="replace")
