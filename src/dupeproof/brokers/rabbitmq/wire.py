"""How messages look on RabbitMQ, and the names of the queues beside a queue. Pure."""

import re
from collections.abc import Mapping
from typing import Any

from dupeproof.brokers.base import Delivery, dead_headers
from dupeproof.brokers.errors import NotPublished
from dupeproof.brokers.ids import delivery
from dupeproof.errors import ConfigError
from dupeproof.keys.messages import from_amqp
from dupeproof.outbox import messages

KEY, ATTEMPT, TOPIC, LONG_ID = "dupeproof-key", "dupeproof-attempt", "dupeproof-topic", "dupeproof-id"
_OURS = {KEY, ATTEMPT, TOPIC, LONG_ID}
_SHORT = 255
"""Bytes that a name or a message_id can have."""
_LONGEST_DELAY = len(".retry-4000000000ms")
_STEPS = (1, 2, 3, 5, 7, 10, 15, 20, 30, 50, 70, 100)
PERSISTENT = 2
PATIENCE = 1.0
"""Seconds that a consumer waits for the broker to confirm copies, before it goes on with other messages."""


class Sent:
    """A message in the words of AMQP; a driver makes its own object of it."""

    __slots__ = ("body", "headers", "message_id", "type")

    def __init__(
        self, ident: str | None, body: bytes, headers: dict[str, Any], kind: str | None = None
    ) -> None:
        short = ident is not None and len(ident.encode()) <= _SHORT
        self.message_id = ident if short else None
        self.headers = headers if short or ident is None else {**headers, LONG_ID: ident}
        self.body = body
        self.type = kind or None


def unfit(message: messages.Message) -> NotPublished | None:
    """AMQP has 255 bytes for a name."""
    names = [("topic", message.topic), ("type", message.type)]
    names += [("name of a header", name) for name in message.headers]
    for what, name in names:
        if len(name.encode()) > _SHORT:
            return NotPublished(f"RabbitMQ cannot take a {what} longer than {_SHORT} bytes", reason="unfit")
    return None


def published(message: messages.Message) -> Sent:
    key = {} if message.key is None else {KEY: message.key}
    return Sent(message.id, message.payload, {**message.headers, **key}, message.type)


def check_names(queue: str, dead: str) -> None:
    """Also those of the queues beside it, which are needed only when something goes wrong."""
    if dead == queue:
        raise ConfigError("dead= is the queue itself; what is put aside there would come back for ever")
    for name, most in ((queue, _SHORT - _LONGEST_DELAY), (dead, _SHORT)):
        if len(name.encode()) > most:
            raise ConfigError(
                f"the name of the queue {name[:40]!r}… has {len(name.encode())} bytes, and can have {most}: RabbitMQ takes "
                f"{_SHORT}, and retries wait in queues whose names are longer; choose a shorter one"
            )


LENGTH = "x-max-length-bytes"
_DIFFERENT = re.compile(r"inequivalent arg '([\w-]+)' .*current is (?:the value )?'([^']*)'", re.DOTALL)


def different(text: str) -> tuple[str, str]:
    """The argument of a queue that is not as in our declaration, and what it is; the broker names the first it finds."""
    found = _DIFFERENT.search(text)
    return (found[1], found[2]) if found else ("", "")


def is_streams(argument: str, value: str) -> bool:
    """Whether only a stream has it."""
    return (argument, value) == ("x-queue-type", "stream") or argument.startswith(("x-max-age", "x-stream-"))


def again(each: Delivery, attempt: int) -> Sent:
    """To come again, as that attempt."""
    message = each.message
    ours = {ATTEMPT: attempt, TOPIC: message.topic}
    key = {} if message.key is None else {KEY: message.key}
    return Sent(each.sender_id, message.body, {**message.headers, **ours, **key})


def put_aside(each: Delivery, reason: str, queue: str) -> Sent:
    message = each.message
    key = {} if message.key is None else {KEY: message.key}
    return Sent(each.sender_id, message.body, {**dead_headers(each, reason, queue), **key})


def received(properties: Any, routing_key: str, body: bytes, receipt: Any, *, redelivered: bool) -> Delivery:
    """`properties` are those of either driver: both name the fields as AMQP does."""
    headers: Mapping[str, Any] = properties.headers or {}
    key = headers.get(KEY)
    return delivery(
        lambda: from_amqp(properties, header=LONG_ID, missing="pass"),
        receipt,
        body=body,
        headers=_texts(headers),
        topic=_text(headers.get(TOPIC, routing_key)),
        key=None if key is None else _text(key),
        attempt=_number(headers.get(ATTEMPT), 1) + returned(properties),
        redelivered=redelivered,
    )


def returned(properties: Any) -> int:
    """How often it came back to its queue, also untried. A quorum queue counts that; a classic one does not."""
    return _number((properties.headers or {}).get("x-delivery-count"), 0)


_THE_BROKERS = ("x-death", "x-first-death-", "x-last-death-", "x-delivery-count", "x-acquired-count")


def _texts(headers: Mapping[str, Any]) -> dict[str, str]:
    """Without ours, and without what the broker adds on the way."""
    plain = (str, bytes, int, float)
    return {
        name: _text(value)
        for name, value in headers.items()
        if name not in _OURS and not name.startswith(_THE_BROKERS) and isinstance(value, plain)
    }


def _text(value: object) -> str:
    return value.decode(errors="replace") if isinstance(value, bytes) else str(value)


def _number(value: object, otherwise: int) -> int:
    return value if isinstance(value, int) else otherwise


def delay_queue(queue: str, seconds: float) -> tuple[str, dict[str, Any]]:
    """Where a message waits about that long, and at least so long, before it comes back.

    A message leaves it only when the other queue has confirmed it, however long that one is full or gone. So it never
    expires, and there are few of them: delays are rounded up.
    """
    wait = _rounded_up(max(1, round(seconds * 1_000)))
    arguments = {
        "x-queue-type": "quorum",
        "x-message-ttl": wait,
        "x-dead-letter-exchange": "",
        "x-dead-letter-routing-key": queue,
        "x-dead-letter-strategy": "at-least-once",
        "x-overflow": "reject-publish",
    }
    return f"{queue}.retry-{wait}ms", arguments


def _rounded_up(milliseconds: int) -> int:
    """To the next of 1, 2, 3, 5, 7, 10, 15, 20, 30, 50, 70, 100 …"""
    scale: int = 10 ** max(0, len(str(milliseconds)) - 2)
    return next(step * scale for step in _STEPS if step * scale >= milliseconds)
