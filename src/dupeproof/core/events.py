"""What happened, as a frozen value handed to listeners. A listener that raises never breaks a call."""

import logging
from collections.abc import Callable, Sequence
from enum import StrEnum

from msgspec import Struct

logger = logging.getLogger("dupeproof")


class Kind(StrEnum):
    WON = "won"
    TOOK_OVER = "took_over"
    FINISHED = "finished"
    REPLAYED = "replayed"
    NOT_REPLAYABLE = "not_replayable"
    FAILED = "failed"
    BUSY = "busy"
    MISMATCH = "mismatch"
    HELD = "held"
    DEAD = "dead"
    LOST = "lost"
    ABANDONED = "abandoned"
    RELEASED = "released"
    SEEN = "seen"
    FRESH = "fresh"
    STORE_DOWN = "store_down"
    PURGED = "purged"
    SENT = "sent"
    SENT_AGAIN = "sent_again"
    BACKLOG = "backlog"
    STORE_CALL = "store_call"
    """A batch was sent to a store; `name` is the verb. Told only to listeners that have `wants_store_calls`."""


class Event(Struct, frozen=True, kw_only=True):
    kind: Kind
    namespace: str
    name: str = ""
    """Qualified name of the guarded function, where there is one."""
    key: str = ""
    """Short digest of the key; never the key itself."""
    attempt: int = 0
    count: int = 1
    seconds: float | None = None


Listener = Callable[[Event], object]


def store_observers(listeners: Sequence[Listener]) -> list[Listener]:
    """Those who want to know of every call to a store, as metrics do."""
    return [each for each in listeners if getattr(each, "wants_store_calls", False)]


class Teller:
    """Tells of one kind of event, where it happens often: listeners that only count need no event for that."""

    __slots__ = ("_kind", "_listeners", "_name", "_namespace", "bumps")

    def __init__(self, listeners: Sequence[Listener], kind: Kind, namespace: str, name: str) -> None:
        counting = [each for each in listeners if hasattr(each, "counter")]
        self.bumps = [each.counter(kind, namespace, name) for each in counting]
        self._listeners = [each for each in listeners if each not in counting]
        self._kind = kind
        self._namespace = namespace
        self._name = name

    def __call__(self, key: bytes, attempt: int) -> None:
        for bump in self.bumps:
            bump()
        if self._listeners:
            event = Event(
                kind=self._kind,
                namespace=self._namespace,
                name=self._name,
                key=key.hex()[:12],
                attempt=attempt,
            )
            publish(self._listeners, event)


def publish(listeners: Sequence[Listener], event: Event) -> None:
    for listener in listeners:
        try:
            listener(event)
        except Exception:
            logger.exception("An event listener failed; the guarded call goes on")
