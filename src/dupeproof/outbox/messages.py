"""A message on its way in, checked and turned into a row, and on its way out. Pure."""

import math
from collections.abc import Callable, Mapping
from datetime import datetime
from typing import Any, Literal
from zlib import crc32

import msgspec
from msgspec import Struct

from dupeproof.core.codecs import JsonCodec, Unstorable
from dupeproof.core.durations import Duration, milliseconds
from dupeproof.core.events import logger
from dupeproof.core.trace_context import outgoing
from dupeproof.errors import ConfigError
from dupeproof.keys.ids import content_id, new_id
from dupeproof.keys.names import Key, check_key

SHARDS = 64
"""How many relays can be at work at once. The same for ever: it decides which keys share a shard."""
MAX_NAME = 255
Ids = Literal["new", "content"]
Row = tuple[int, str, str, str | None, str, bytes, str | None, int | None, int | None]
FIELDS = ("shard", "id", "topic", "key", "type", "payload", "headers", "not_before", "delay")
"""Of a row. Headers are JSON; times are milliseconds, since 1970 and from now."""
Place = tuple[int, int]
"""Shard and number: where a message stands."""
_encode = JsonCodec().encode


def shard_of(kept_in: int) -> int:
    """Delayed messages are kept in the negative of their shard."""
    return max(kept_in, -1 - kept_in)


class Message(Struct, frozen=True, kw_only=True):
    """What a publisher is given."""

    id: str
    """Made once, when the message was added; the same at every delivery."""
    topic: str
    key: str | None
    """Messages with the same key are delivered in the order they were added."""
    payload: bytes
    headers: dict[str, str]
    type: str = ""
    attempt: int = 1
    age: float = 0.0
    """Seconds since it was added, or since its time came."""
    place: Place = (0, 0)

    def json(self) -> Any:
        """The payload read as JSON."""
        return msgspec.json.decode(self.payload)


class Added(Struct, frozen=True, kw_only=True):
    """One of many messages to add; the arguments of `add` as a value."""

    topic: str
    payload: Any
    key: Key | None = None
    headers: Mapping[str, str] | None = None
    type: str = ""
    id: str | None = None
    delay: Duration | None = None
    not_before: datetime | None = None


def message_of(fields: Any) -> Message:
    """From what a source has read: shard, number, id, topic, key, type, payload, headers, age, attempts."""
    shard, seq, ident, topic, key, kind, payload, headers, age, attempts = fields
    return Message(
        id=ident,
        topic=topic,
        key=key,
        payload=bytes(payload),
        headers=_read_headers(headers, ident) if headers else {},
        type=kind,
        attempt=attempts + 1,
        age=max(0.0, float(age)),
        place=(shard, seq),
    )


def _read_headers(text: str, ident: str) -> dict[str, str]:
    try:
        return msgspec.json.decode(text, type=dict[str, str])
    except msgspec.DecodeError:
        logger.warning("The headers of message %s are not JSON, and are left out: who wrote them?", ident)
        return {}


class Intake:
    """From the arguments of `add` to a row."""

    def __init__(self, *, ids: Ids, max_payload: object, max_headers: object) -> None:
        if ids not in _IDS:
            raise ConfigError(f"ids must be 'new' or 'content'; got {ids!r}")
        self._make_id = _IDS[ids]
        self._max_payload = _bytes(max_payload, "max_payload")
        self._max_headers = _bytes(max_headers, "max_headers")

    def row(self, message: Added) -> Row:
        topic = _name(message.topic, "topic")
        key = None if message.key is None else check_key(message.key)
        payload = self._payload(message.payload)
        ident = self._make_id(message, topic, key) if message.id is None else check_key(message.id)
        shard = crc32((ident if key is None else key).encode()) % SHARDS
        delay = None if message.delay is None else milliseconds(message.delay, name="delay")
        not_before = _moment(message.not_before, delay)
        if not_before is not None or delay is not None:
            shard = -1 - shard
        kind = "" if message.type == "" else _name(message.type, "type")
        headers = self._headers(message.headers, outgoing())
        return shard, ident, topic, key, kind, payload, headers, not_before, delay

    def _payload(self, value: object) -> bytes:
        data = bytes(value) if isinstance(value, bytes | bytearray | memoryview) else _to_json(value)
        if len(data) > self._max_payload:
            raise ConfigError(
                f"the payload has {len(data):,} bytes, and at most {self._max_payload:,} are taken; keep it elsewhere and send "
                "where it is, or raise Outbox(max_payload=…) if your broker takes more"
            )
        return data

    def _headers(self, headers: object, traced: Mapping[str, str]) -> str | None:
        text = _headers(headers, traced)
        size = 0 if text is None else len(text.encode())
        if size > self._max_headers:
            raise ConfigError(
                f"the headers have {size:,} bytes, and at most {self._max_headers:,} are taken; put what is large into the "
                "payload, or raise Outbox(max_headers=…) if your broker takes more"
            )
        return text


def _bytes(value: object, name: str) -> int:
    if not isinstance(value, int) or isinstance(value, bool) or value < 1:
        raise ConfigError(f"{name} must be a number of bytes, at least 1; got {value!r:.40}")
    return value


def _content(message: Added, topic: str, key: str | None) -> str:
    return content_id(message.payload, context={"topic": topic, "key": key})


_IDS: dict[str, Callable[[Added, str, str | None], str]] = {
    "new": lambda *_: new_id(),
    "content": _content,
}


def _to_json(value: object) -> bytes:
    try:
        return _encode(value)
    except Unstorable as exc:
        path, why = _culprit(value, "payload", exc)
        raise ConfigError(f"{path}: {why}; turn it into JSON types, or pass bytes") from exc


def _culprit(value: object, path: str, why: Unstorable) -> tuple[str, Unstorable]:
    """The innermost part that cannot be written, and why."""
    parts: list[tuple[str, object]] = []
    if isinstance(value, dict):
        parts = [(f"{path}.{name}", part) for name, part in value.items()]
    elif isinstance(value, list | tuple):
        parts = [(f"{path}[{number}]", part) for number, part in enumerate(value)]
    for inner, part in parts:
        try:
            _encode(part)
        except Unstorable as exc:
            return _culprit(part, inner, exc)
    return path, why


def _name(value: object, what: str) -> str:
    if isinstance(value, str) and 0 < len(value) <= MAX_NAME and value.isprintable() and not value.isspace():
        return value
    shown = f"{value!r:.80}" if isinstance(value, str) else f"a {type(value).__qualname__}"
    raise ConfigError(
        f"the {what} must be a text of 1 to {MAX_NAME} printable characters, such as 'orders'; got {shown}"
    )


def _headers(headers: object, traced: Mapping[str, str]) -> str | None:
    """As JSON. Those of the trace go beneath the user's own."""
    if headers is None or headers == {}:
        return msgspec.json.encode(traced).decode() if traced else None
    if not isinstance(headers, Mapping):
        raise ConfigError(f"headers must be a dict of texts; got a {type(headers).__qualname__}")
    for name, value in headers.items():
        if not isinstance(name, str) or not isinstance(value, str):
            shown = name if isinstance(name, str) else type(name).__qualname__
            raise ConfigError(
                f"headers must be texts; {shown!r:.80} is a {type(value).__qualname__}: use str()"
            )
    try:
        return msgspec.json.encode({**traced, **headers}).decode()
    except UnicodeEncodeError:
        raise ConfigError(
            "a header contains a lone surrogate, which has no UTF-8 form; decode it first"
        ) from None


def _moment(not_before: object, delay: int | None) -> int | None:
    if not_before is None:
        return None
    if delay is not None:
        raise ConfigError("give delay= or not_before=, not both")
    if not isinstance(not_before, datetime) or not_before.tzinfo is None:
        raise ConfigError("not_before must be a datetime with a time zone, such as datetime.now(UTC) + …")
    return math.ceil(not_before.timestamp() * 1_000)
