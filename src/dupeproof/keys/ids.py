"""Ids: a new one for each event, and one that follows from the content."""

import os
import time
from collections.abc import Callable
from hashlib import sha256

import uuid_utils

# With releases before 0.14 this import fails, and should: there, forked children draw the same random numbers.
from uuid_utils import reseed_rng, uuid7

from dupeproof.errors import KeyMissing
from dupeproof.keys.canonical import canonical
from dupeproof.keys.names import check_namespace


def new_id(namespace: str | None = None) -> str:
    """A new unique id that sorts by time (UUID version 7), as `namespace:uuid` where a namespace is given.

    Make it once per logical event, store it with the event, and reuse it in every retry.
    """
    if namespace is None:
        return str(_draw())
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


def _draw_first_after_fork() -> uuid_utils.UUID:
    """In a forked child, leave the millisecond of the fork before drawing.

    Version 7 ids of one millisecond share a counter, and children forked in it have copies of the same counter: only
    32 random bits would keep them apart. In the next millisecond the counter starts anew from 42 random bits.
    """
    global _draw  # noqa: PLW0603 - so that all later ids pay nothing for the fork
    shared = uuid7().timestamp
    # A clock that was set back stands still for the ids; then the 32 bits have to do.
    patience = time.monotonic() + 0.05
    fresh = uuid7()
    while fresh.timestamp <= shared and time.monotonic() < patience:
        fresh = uuid7()
    _draw = uuid7
    return fresh


def _after_fork() -> None:
    global _draw  # noqa: PLW0603
    reseed_rng()
    _draw = _draw_first_after_fork


_draw: Callable[[], uuid_utils.UUID] = uuid7
if hasattr(os, "register_at_fork"):
    os.register_at_fork(after_in_child=_after_fork)
