"""Ids: a new one for each event, and one that follows from the content."""

import time
from hashlib import sha256
from os import urandom

from dupeproof.errors import KeyMissing
from dupeproof.keys.canonical import canonical
from dupeproof.keys.names import check_namespace


def new_id(namespace: str | None = None) -> str:
    """A new unique id that sorts by time (UUID version 7), as `namespace:uuid` where a namespace is given.

    Make it once per logical event, store it with the event, and reuse it in every retry.
    """
    if namespace is None:
        return _draw()
    return f"{check_namespace(namespace)}:{_draw()}"


def content_id(payload: object, *, context: object = None, namespace: str | None = None) -> str:
    """The id that follows from the content: 64 hex digits, as `namespace:digits` where a namespace is given.

    Equal (payload, context, namespace) give equal ids in every process and Python version; different ones never meet,
    because the three are hashed as one canonical array and not glued together. `context` says what the content alone
    does not: the customer, the day, the queue. It may be anything `canonical` can write, usually a dict; no context
    and None are the same. A payload of None is refused: all that is missing would be one duplicate.
    """
    if payload is None:
        raise KeyMissing(
            "the payload is None, so every other missing payload would be its duplicate; pass the content"
        )
    name = b"null" if namespace is None else canonical(check_namespace(namespace))
    parts = (name, canonical(context, name="context"), canonical(payload))
    # The leading word and number keep these hashes apart from all others, and from those of a later scheme.
    digits = sha256(b'["content_id",1,%b,%b,%b]' % parts).hexdigest()
    return digits if namespace is None else f"{namespace}:{digits}"


_last = 0
"""The time in the newest id, in parts of a millisecond."""
_PARTS = 4096
_VERSION, _VARIANT = 7 << 12, 2 << 62


def _draw() -> str:
    """A UUID of version 7, with the parts of the millisecond in its first twelve free bits (RFC 9562, 6.2, method 3).

    The other 62 bits come from the system for each id, so that nothing in this process has to be unique: a forked child,
    a restored checkpoint and a copied machine draw other ones. The time never goes back within a process.
    """
    global _last  # noqa: PLW0603 - two threads that read the same differ in their random bits
    _last = ticks = max(time.time_ns() * _PARTS // 1_000_000, _last + 1)
    milliseconds, part = divmod(ticks, _PARTS)
    tail = _VARIANT | int.from_bytes(urandom(8), "big") >> 2
    digits = f"{milliseconds:012x}{_VERSION | part:04x}{tail:016x}"
    return f"{digits[:8]}-{digits[8:12]}-{digits[12:16]}-{digits[16:20]}-{digits[20:]}"
