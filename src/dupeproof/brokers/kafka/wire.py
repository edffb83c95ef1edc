"""How messages look on Kafka. Pure."""

import re
from collections.abc import Mapping
from typing import Any

from dupeproof.brokers.base import Delivery, dead_headers
from dupeproof.brokers.errors import NotPublished
from dupeproof.brokers.ids import delivery
from dupeproof.keys.messages import from_kafka
from dupeproof.outbox.messages import Message

ID, TYPE = "message-id", "message-type"
_TOPIC = re.compile(r"[a-zA-Z0-9._-]{1,249}")
Record = dict[str, Any]
"""The arguments of the driver's `produce`, without the topic."""


def unfit(message: Message) -> NotPublished | None:
    if _TOPIC.fullmatch(message.topic) and message.topic not in (".", ".."):
        return None
    text = "a topic of Kafka is called by up to 249 letters, digits, dots, dashes and underscores"
    return NotPublished(f"{message.topic!r:.60} is no topic: {text}", reason="unfit")


def published(message: Message) -> Record:
    return _record(message.id, message.payload, message.key, message.type, message.headers)


def put_aside(each: Delivery, reason: str, topic: str) -> Record:
    message = each.message
    return _record(each.sender_id, message.body, message.key, "", dead_headers(each, reason, topic))


def _record(ident: str | None, body: bytes, key: str | None, kind: str, headers: Mapping[str, str]) -> Record:
    ours = {name: value for name, value in {ID: ident, TYPE: kind}.items() if value}
    pairs = [(name, value.encode()) for name, value in {**headers, **ours}.items()]
    return {"value": body, "key": None if key is None else key.encode(), "headers": pairs}


def received(message: Any, owner: str, *, redelivered: bool = False) -> Delivery:
    key = message.key()
    partition, offset = message.partition(), message.offset()
    pairs: list[tuple[str, bytes | None]] = message.headers() or []
    return delivery(
        lambda: from_kafka(message, ID, missing="pass"),
        (partition, offset, owner),
        lane=f"{message.topic()}:{partition}",  # a partition is read in order, and its offset has no gaps
        body=message.value() or b"",
        headers={name: _text(value) for name, value in pairs if name not in (ID, TYPE)},
        topic=message.topic(),
        key=None if key is None else _text(key),
        redelivered=redelivered,
    )


def _text(value: bytes | None) -> str:
    return "" if value is None else value.decode(errors="replace")
