"""The id of a message: from headers, AMQP properties, Kafka messages and CloudEvents. Never a made-up one.

Where a message has no id, `missing` says what to do: "raise" (KeyMissing), "content" (the content id of `body`) or
"pass" (None, and the caller decides). An id that is there but empty counts as missing. Libraries are recognised by the
shape of their objects, so none of them is imported.
"""

from collections.abc import Iterable, Mapping
from typing import Any, Literal, overload

import msgspec

from dupeproof.errors import ConfigError, KeyInvalid, KeyMissing
from dupeproof.keys.canonical import canonical
from dupeproof.keys.ids import content_id
from dupeproof.keys.names import check_key

Headers = Mapping[str, Any] | Mapping[bytes, Any] | Iterable[tuple[Any, Any]]
Missing = Literal["raise", "content", "pass"]
MustHave = Literal["raise", "content"]

_CELERY = {"task", "id", "root_id"}
"""Headers that no message of Celery is without."""
# In structured mode, in HTTP and NATS headers, in Kafka headers, in AMQP application properties.
_CLOUDEVENT_PREFIXES = ("ce-", "ce_", "cloudevents:", "cloudevents_")


@overload
def from_headers(
    headers: Headers | None, name: str = ..., *, missing: MustHave = ..., body: object = ...
) -> str: ...
@overload
def from_headers(
    headers: Headers | None, name: str = ..., *, missing: Missing, body: object = ...
) -> str | None: ...
def from_headers(
    headers: Headers | None, name: str = "Idempotency-Key", *, missing: Missing = "raise", body: object = None
) -> str | None:
    """The id in a header, whatever the case of its name. A mapping, or pairs as ASGI and Kafka have them."""
    return _id_or(_header(headers, name), f"header {name!r}", missing, body)


@overload
def from_amqp(
    properties: object, *, header: str | None = ..., missing: MustHave = ..., body: object = ...
) -> str: ...
@overload
def from_amqp(
    properties: object, *, header: str | None = ..., missing: Missing, body: object = ...
) -> str | None: ...
def from_amqp(
    properties: object, *, header: str | None = None, missing: Missing = "raise", body: object = None
) -> str | None:
    """The `message_id` of AMQP properties (pika, aio-pika, a dict); else the header named, where one is named."""
    found = _text(_get(properties, "message_id"), "message_id")
    where = "message_id"
    if found is None and header is not None:
        found = _header(_get(properties, "headers"), header)
        where = f"message_id and header {header!r}"
    return _id_or(found, where, missing, body)


@overload
def from_kafka(message: object, header: str = ..., *, missing: MustHave = ..., body: object = ...) -> str: ...
@overload
def from_kafka(message: object, header: str = ..., *, missing: Missing, body: object = ...) -> str | None: ...
def from_kafka(
    message: object, header: str = "message-id", *, missing: Missing = "raise", body: object = None
) -> str | None:
    """The id in a header of a Kafka message (confluent-kafka, aiokafka). Not its position: see `kafka_position`."""
    return _id_or(_header(_get(message, "headers"), header), f"header {header!r}", missing, body)


def kafka_position(message: object) -> str:
    """Where the message lies, `topic:partition:offset`, as its id.

    It recognises redeliveries of one record, but a record that was produced twice has two positions: only
    an id that the producer sets finds those.
    """
    topic, partition, offset = (_get(message, part) for part in ("topic", "partition", "offset"))
    if (
        not topic
        or not isinstance(partition, int)
        or not isinstance(offset, int)
        or partition < 0
        or offset < 0
    ):
        raise KeyMissing("the message has no topic, partition and offset; it was not read from a Kafka log")
    return check_key(f"{topic}:{partition}:{offset}")


@overload
def from_cloudevent(event: object, *, missing: MustHave = ..., body: object = ...) -> str: ...
@overload
def from_cloudevent(event: object, *, missing: Missing, body: object = ...) -> str | None: ...
def from_cloudevent(event: object, *, missing: Missing = "raise", body: object = None) -> str | None:
    """Source and id of a CloudEvent as a JSON array: the id alone is unique only within its source.

    A structured event (a dict or an object with `source` and `id`), or the headers of a binary one (`ce-id`, `ce_id`).
    """
    found = None
    for source, identifier in _cloudevent_candidates(event):
        if source is not None and identifier is not None:
            found = canonical((source, identifier)).decode()
            break
    return _id_or(found, "CloudEvent's source and id", missing, body)


def from_others(headers: Headers | None, content_type: object = None, body: bytes = b"") -> str | None:
    """The id that CloudEvents or Celery has given a message; for where the broker has none. None without one.

    A CloudEvent has it, with its source, in headers with a prefix, or in a body of type `application/cloudevents+json`. A
    task of Celery keeps its id when it is tried again: the number of the try distinguishes these.
    """
    pairs = [] if headers is None else [*(headers.items() if hasattr(headers, "items") else headers)]
    for prefix in _CLOUDEVENT_PREFIXES:
        source, identifier = _header(pairs, f"{prefix}source"), _header(pairs, f"{prefix}id")
        if source is not None and identifier is not None:
            return from_cloudevent({"source": source, "id": identifier}, missing="pass")
    kind = _text(content_type, "content type") or _header(pairs, "content-type") or ""
    if kind.partition(";")[0].strip().lower() == "application/cloudevents+json":
        return from_cloudevent(_event(body), missing="pass")
    if {name for name, _ in pairs} >= _CELERY and (task := _header(pairs, "id")) is not None:
        tries = next((value for name, value in pairs if name == "retries"), None)
        return check_key(f"{task}:{tries}") if isinstance(tries, int) and tries > 0 else task
    return None


def _event(body: bytes) -> dict[str, Any]:
    try:
        found = msgspec.json.decode(body)
    except msgspec.DecodeError:
        return {}
    return found if isinstance(found, dict) else {}


def _cloudevent_candidates(event: Any) -> Iterable[tuple[str | None, str | None]]:
    if isinstance(event, Mapping | list | tuple):
        # Prefixed names first: among HTTP headers a plain `id` or `source` would be someone else's.
        for prefix in (*_CLOUDEVENT_PREFIXES, ""):
            yield _header(event, f"{prefix}source"), _header(event, f"{prefix}id")
    else:
        yield _text(_get(event, "source"), "source"), _text(_get(event, "id"), "id")


def _id_or(found: str | None, where: str, missing: Missing, body: object) -> str | None:
    if missing not in ("raise", "content", "pass"):
        raise ConfigError(f"missing= must be 'raise', 'content' or 'pass', got {missing!r:.40}")
    if found is not None:
        return found
    if missing == "pass":
        return None
    if missing == "raise":
        raise KeyMissing(
            f"the message has no {where}; have its sender set it, or choose missing='content' or 'pass'"
        )
    if body is None or body in (b"", ""):
        raise KeyMissing(
            f"the message has no {where}, and body= is empty; missing='content' needs the message's body"
        )
    return content_id(body)


def _header(headers: Any, name: str) -> str | None:
    """The one value under a name, in any case. Two different ones are an error: either could be the true id."""
    if headers is None:
        return None
    wanted = name.lower()
    found: str | None = None
    for key, value in headers.items() if hasattr(headers, "items") else headers:
        label = key.decode("latin-1") if isinstance(key, bytes) else key
        if not isinstance(label, str) or label.lower() != wanted:
            continue
        text = _text(value, f"header {name!r}")
        if text is not None and found is not None and text != found:
            raise KeyInvalid(f"the message has header {name!r} twice, with different values; send it once")
        found = text if found is None else found
    return found


def _text(value: object, where: str) -> str | None:
    if value is None:
        return None
    if isinstance(value, bytes | bytearray | memoryview):
        try:
            value = bytes(value).decode()
        except UnicodeDecodeError:
            raise KeyInvalid(f"the message's {where} is not UTF-8 text; send the id as text") from None
    try:
        return check_key(value)
    except KeyMissing:
        return None
    except KeyInvalid as error:
        raise KeyInvalid(f"the message's {where}: {error}") from None


def _get(source: Any, name: str) -> Any:
    """An item, an attribute, or what a method of that name returns, as confluent-kafka has it; None without one."""
    value = source.get(name) if isinstance(source, Mapping) else getattr(source, name, None)
    return value() if callable(value) else value
