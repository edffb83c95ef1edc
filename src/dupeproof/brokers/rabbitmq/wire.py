"""How messages look on RabbitMQ, and the names of the queues beside a queue. Pure."""

import re
from collections.abc import Mapping
from datetime import UTC, datetime
from typing import Any, NamedTuple

from msgspec import Struct

from dupeproof.brokers.base import (
    ATTEMPTS,
    ORIGIN,
    REASON,
    TOPIC,
    UNUSABLE_ID,
    Delivery,
    dead_headers,
)
from dupeproof.brokers.dead import as_count
from dupeproof.brokers.errors import NotPublished
from dupeproof.brokers.ids import delivery
from dupeproof.brokers.rabbitmq.properties import table
from dupeproof.errors import ConfigError
from dupeproof.keys.message_ids import from_amqp, from_others
from dupeproof.outbox import messages

KEY, ATTEMPT, LONG_ID = "dupeproof-key", "dupeproof-attempt", "dupeproof-id"
EXPIRATION, USER, TIME = "dupeproof-expiration", "dupeproof-user-id", "dupeproof-timestamp"
"""Properties that a copy cannot have as such: it would expire once more, the broker takes only the publisher's own user, and a
time beyond the year 9999 (in milliseconds, say) cannot be written.
"""
_ROUTING = {"CC": "dupeproof-cc", "BCC": "dupeproof-bcc"}
"""Headers by which the broker would send a copy to others as well, under other names."""
DIED = "dupeproof-died"
"""When a message was dead-lettered, by its consumer's clock: AMQP has no time of its own."""
DROPPED = "dupeproof-dropped"
"""Names of headers for which there was no room, since ours are added to a message that filled a frame."""
_MOST_HEADERS = 131_072 - 4_096
"""Bytes: what is left of a frame for them, beside all other properties."""
_OURS = {KEY, ATTEMPT, TOPIC, LONG_ID, EXPIRATION, USER, TIME}
_COPIED = (
    "content_type",
    "content_encoding",
    "correlation_id",
    "reply_to",
    "type",
    "priority",
    "timestamp",
    "app_id",
)
"""Both drivers call them as AMQP does."""
_SHORT = 255
"""Bytes that a name or a message_id can have."""
_FRAME = 1_024
"""Bytes of a frame that are not headers, at most: the properties beside them have a few short texts."""
_FIELD = 6
"""Bytes of a header beside its name and value."""
_LONGEST_DELAY = len(".retry-4000000000ms")
_STEPS = (1, 2, 3, 5, 7, 10, 15, 20, 30, 50, 70, 100)
PERSISTENT = 2
PATIENCE = 1.0
"""Seconds that a consumer waits for the broker to confirm copies, before it goes on with other messages."""


class Sent(Struct):
    """A message in the words of AMQP; a driver makes its own object of it."""

    body: bytes
    properties: dict[str, Any]


def _sent(ident: str | None, body: bytes, headers: dict[str, Any], properties: dict[str, Any]) -> Sent:
    if ident is not None and len(ident.encode()) > _SHORT:
        ident, headers = None, {**headers, LONG_ID: ident}
    return Sent(body, {**properties, "message_id": ident, "headers": headers, "delivery_mode": PERSISTENT})


def unfit(message: messages.Message, frame_max: int = 0) -> NotPublished | None:
    """AMQP has 255 bytes for a name, and all headers go into one frame; 0 is a frame without limit."""
    names = [("topic", message.topic), ("type", message.type)]
    names += [("name of a header", name) for name in message.headers]
    for what, name in names:
        if len(name.encode()) > _SHORT:
            return NotPublished(f"RabbitMQ cannot take a {what} longer than {_SHORT} bytes", reason="unfit")
    headers = published(message).properties["headers"]
    size = _FRAME + sum(_FIELD + len(name.encode()) + len(value.encode()) for name, value in headers.items())
    if 0 < frame_max < size:
        return NotPublished(
            f"the headers take {size:,} bytes, and RabbitMQ at most {frame_max:,} in a frame; put what is large into the "
            "payload, or raise frame_max in rabbitmq.conf",
            reason="unfit",
        )
    return None


def published(message: messages.Message) -> Sent:
    key = {} if message.key is None else {KEY: message.key}
    return _sent(
        message.id,
        message.payload,
        {**message.headers, **key},
        {"type": message.type} if message.type else {},
    )


def check_names(queue: str, dead: str) -> None:
    """Also those of the queues beside it, which are needed only when something goes wrong."""
    if dead == queue:
        raise ConfigError("dead= is the queue itself; what is dead-lettered there would come back for ever")
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


OF_STREAMS = {"x-stream-offset": "next"}
"""Arguments for consuming that only a stream takes. It refuses them too, for want of a prefetch count."""


def wants_prefetch(text: str) -> bool:
    """Whether it is a stream that refused to be consumed from."""
    return "prefetch count is not set" in text


def again(each: Delivery, attempt: int) -> Sent:
    """To come again, as that attempt."""
    return _copy(each, {ATTEMPT: attempt, TOPIC: each.message.topic})


def dead_letter(each: Delivery, reason: str, queue: str) -> Sent:
    return _copy(each, {**dead_headers(each, reason, queue), DIED: _now(), TOPIC: each.message.topic})


def _now() -> datetime:
    return datetime.now(UTC).replace(microsecond=0)


class Death(NamedTuple):
    """What a dead letter says of itself, by our headers or by those of the broker."""

    queue: str | None
    reason: str
    attempts: int | None
    died: datetime | None
    topic: str | None


_DEATHS = {
    "rejected": "a consumer rejected it",
    "expired": "it was not consumed in time",
    "maxlen": "its queue was full",
    "delivery_limit": "it was delivered too often",
}


def death(properties: Any) -> Death:
    headers: Mapping[str, Any] = properties.headers or {}
    if REASON in headers:
        died = headers.get(DIED)
        return Death(
            _text(headers[ORIGIN]) if ORIGIN in headers else None,
            _text(headers[REASON]),
            as_count(_text(headers.get(ATTEMPTS))),
            died if isinstance(died, datetime) else None,
            _text(headers[TOPIC]) if TOPIC in headers else None,
        )
    told = headers.get("x-death")
    if not isinstance(told, list) or not told or not isinstance(told[0], dict):
        return Death(None, "", None, None, None)
    last: Mapping[str, Any] = told[0]  # the one before it is told after it
    reason, died, keys = str(last.get("reason", "")), last.get("time"), last.get("routing-keys") or [None]
    return Death(
        None if last.get("queue") is None else _text(last["queue"]),
        f"{reason}: {_DEATHS.get(reason, 'as RabbitMQ says')}",
        as_count(_text(last.get("count"))),
        died if isinstance(died, datetime) else None,
        None if keys[0] is None else _text(keys[0]),
    )


def revived(each: Delivery, found: Death) -> Sent:
    """A dead letter as the message it was, for the queue it came from; all attempts are before it."""
    sent = _copy(each, _given({TOPIC: found.topic}))
    headers = {name: value for name, value in sent.properties["headers"].items() if name not in _OF_DEAD}
    ident = headers.pop(UNUSABLE_ID, None) or sent.properties["message_id"] or headers.pop(LONG_ID, None)
    return _sent(ident, sent.body, headers, {**sent.properties})


def renewed(each: Delivery, found: Death) -> Sent:
    """A dead letter that no queue has counted yet. What the broker has said of it is said by us."""
    ours = {REASON: found.reason, ATTEMPTS: found.attempts, ORIGIN: found.queue, DIED: found.died}
    given = {name: str(value) if name == ATTEMPTS else value for name, value in _given(ours).items()}
    return _copy(each, {**(given if found.reason else {}), **_given({TOPIC: found.topic})})


_OF_DEAD = {REASON, ATTEMPTS, ORIGIN, DIED}


def _copy(each: Delivery, ours: Mapping[str, Any]) -> Sent:
    """The message as it came, with every property and header of its sender, in its type; and ours on top."""
    origin = properties_of(each.message.raw)
    known: Mapping[str, Any] = origin.headers or {}
    headers = {_ROUTING.get(name, name): value for name, value in _of_sender(known).items()}
    properties = _given({name: getattr(origin, name) for name in _COPIED})
    if not properties.get("priority"):
        properties.pop("priority", None)  # of one driver it is 0 where there is none
    late = properties.pop("timestamp") if _moment(origin.timestamp) is None and origin.timestamp else None
    now = {EXPIRATION: _milliseconds(origin.expiration), USER: origin.user_id, TIME: late}
    kept = _given(now) | {name: known[name] for name in now if known.get(name) is not None}
    ident = origin.message_id or each.sender_id
    if each.fault is not None:
        kept[UNUSABLE_ID] = ident or known.get(LONG_ID)
        ident = None
    ours = {**kept, **_given({KEY: each.message.key}), **ours}
    return _sent(ident, each.message.body, {**_fitting(headers, ours), **ours}, properties)


def _milliseconds(expiration: str | float | None) -> str | None:
    """As AMQP writes it; aio-pika makes seconds of it."""
    return str(round(expiration * 1_000)) if isinstance(expiration, float) else expiration


def _fitting(headers: dict[str, Any], ours: dict[str, Any]) -> dict[str, Any]:
    """Without the largest, where they do not fit any more. Else the broker would hang up on the copy, for ever."""
    dropped: list[str] = []
    while headers and len(table(headers)) + len(table(ours)) > _MOST_HEADERS:
        largest = max(headers, key=lambda name: len(table({name: headers[name]})))
        dropped.append(largest)
        headers = {name: value for name, value in headers.items() if name != largest}
    return {**headers, DROPPED: ", ".join(dropped)[:1_000]} if dropped else headers


def _given(values: Mapping[str, Any]) -> dict[str, Any]:
    return {name: value for name, value in values.items() if value is not None}


class PikaMessage(NamedTuple):
    """`Message.raw` of a plain handler: what pika hands over in three pieces."""

    method: Any
    properties: Any
    body: bytes


def properties_of(raw: Any) -> Any:
    """Of pika they are an object of their own; a message of aio-pika has them itself."""
    return raw.properties if isinstance(raw, PikaMessage) else raw


def received(raw: Any, routing_key: str, body: bytes, receipt: Any, *, redelivered: bool) -> Delivery:
    properties = properties_of(raw)
    headers: Mapping[str, Any] = properties.headers or {}
    key = headers.get(KEY)
    return delivery(
        lambda: (
            from_amqp(properties, header=LONG_ID, missing="pass")
            or from_others(headers, properties.content_type, body)
        ),
        receipt,
        body=body,
        headers=_texts(headers),
        topic=_text(headers.get(TOPIC, routing_key)),
        key=None if key is None else _text(key),
        type=properties.type or "",
        content_type=properties.content_type,
        correlation_id=properties.correlation_id,
        timestamp=_moment(properties.timestamp),
        attempt=max(1, _number(headers.get(ATTEMPT), 1)) + returned(properties),
        redelivered=redelivered,
        raw=raw,
    )


def _moment(timestamp: datetime | int | None) -> datetime | None:
    """Pika has seconds since 1970, which may be more than a date can hold."""
    try:
        return datetime.fromtimestamp(timestamp, UTC) if isinstance(timestamp, int) else timestamp
    except (ValueError, OverflowError, OSError):
        return None


def returned(properties: Any) -> int:
    """How often it came back to its queue, also untried. A quorum queue counts that; a classic one does not."""
    return _number((properties.headers or {}).get("x-delivery-count"), 0)


_THE_BROKERS = ("x-death", "x-first-death-", "x-last-death-", "x-delivery-count", "x-acquired-count")


def _of_sender(headers: Mapping[str, Any]) -> dict[str, Any]:
    """Without ours, and without what the broker adds on the way."""
    return {
        name: value
        for name, value in headers.items()
        if name not in _OURS and not name.startswith(_THE_BROKERS)
    }


def _texts(headers: Mapping[str, Any]) -> dict[str, str]:
    """Those that have a plain text; `Message.raw` has the others too."""
    plain = (str, bytes, bytearray, int, float)
    return {name: _text(value) for name, value in _of_sender(headers).items() if isinstance(value, plain)}


def _text(value: object) -> str:
    return value.decode(errors="replace") if isinstance(value, bytes | bytearray) else str(value)


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
