"""What happened, as a frozen value handed to listeners. A listener that raises never breaks a call."""

import itertools
import logging
from collections.abc import Callable, Iterable, Sequence
from enum import StrEnum

from msgspec import Struct

from dupeproof.core.callables import is_async
from dupeproof.errors import ConfigError

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
    """A call met a key that is held."""
    ON_HOLD = "on_hold"
    """A key is held from now on, because the work may have happened."""
    SETTLED = "settled"
    """A lookup knew what had become of a held or abandoned key."""
    DEAD = "dead"
    LOST = "lost"
    ABANDONED = "abandoned"
    RELEASED = "released"
    SEEN = "seen"
    FRESH = "fresh"
    LATE = "late"
    """Of those that are fresh: it came before, and its window was over. What it stands for happens twice."""
    STALE = "stale"
    """A message about an entity that has got a newer one; nothing was done for it."""
    STORE_DOWN = "store_down"
    PURGED = "purged"
    PUBLISHER_DOWN = "publisher_down"
    """A relay could publish nothing of what it tried. No message is blamed. Emitted at every try."""
    SENT = "sent"
    SENT_AGAIN = "sent_again"
    BACKLOG = "backlog"
    LAG = "lag"
    """Of a consumer: `count` messages wait at the broker for the group `namespace` in the queue `name`."""
    STORE_CALL = "store_call"
    """A batch was sent to a store; `name` is the verb. Only for listeners that have `wants_store_calls`."""


OF_CLAIMS = (
    Kind.WON,
    Kind.TOOK_OVER,
    Kind.FINISHED,
    Kind.REPLAYED,
    Kind.NOT_REPLAYABLE,
    Kind.FAILED,
    Kind.BUSY,
    Kind.MISMATCH,
    Kind.HELD,
    Kind.ON_HOLD,
    Kind.SETTLED,
    Kind.DEAD,
    Kind.LOST,
    Kind.ABANDONED,
    Kind.RELEASED,
    Kind.STORE_DOWN,
)
OF_MARKS = (Kind.SEEN, Kind.FRESH)
OF_TOKENS = (*OF_MARKS, Kind.MISMATCH)
OF_INBOXES = (*OF_MARKS, Kind.LATE, Kind.STALE)
OF_CONSUMERS = (*OF_INBOXES, Kind.FAILED, Kind.DEAD)
OF_TOPICS = (Kind.FAILED, Kind.DEAD)
OF_RELAYS = (Kind.SENT, Kind.SENT_AGAIN, Kind.PUBLISHER_DOWN, Kind.STORE_DOWN)
OF_PURGERS = (Kind.PURGED, Kind.STORE_DOWN)
"""What each of them may emit, and so counts from 0 on: see `count_from_zero`."""


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
    lag: float | None = None
    """Of a purge: nothing that is still there has been expired for longer. None before the first that came to its end."""


Listener = Callable[[Event], object]


def as_listeners(events: Iterable[Listener]) -> tuple[Listener, ...]:
    """What was given as `events=`, checked before the first event rather than at each of them."""
    if not isinstance(events, Iterable):
        raise ConfigError(f"events must be a list of listeners; write events=[{type(events).__name__}(…)]")
    listeners = tuple(events)
    for each in listeners:
        if not callable(each):
            raise ConfigError(f"a listener is called with each event; {type(each).__name__} cannot be called")
        if is_async(each):
            raise ConfigError("a listener is a plain function, also for tasks: nobody would await this one")
    return listeners


def store_observers(listeners: Sequence[Listener]) -> list[Listener]:
    """Those who want to know of every call to a store, as metrics do."""
    return [each for each in listeners if getattr(each, "wants_store_calls", False)]


class Emitter:
    """Emits one kind of event, where it happens often: listeners that only count need no event for that.

        for count in emit.counts:
            next(count)
        if emit.listeners:
            emit(key, attempt)

    Written out where events are emitted, because each call of a Python function costs more than the counting.
    """

    __slots__ = ("_kind", "_name", "_namespace", "counts", "listeners")

    def __init__(self, listeners: Sequence[Listener], kind: Kind, namespace: str, name: str) -> None:
        found = [(each, _count_of(each, kind, namespace, name)) for each in listeners]
        self.counts = tuple(count for _, count in found if count is not None)
        self.listeners = tuple(each for each, count in found if count is None)
        self._kind = kind
        self._namespace = namespace
        self._name = name

    def __call__(self, key: bytes, attempt: int) -> None:
        event = Event(
            kind=self._kind, namespace=self._namespace, name=self._name, key=key.hex()[:12], attempt=attempt
        )
        publish(self.listeners, event)


class Emitters(dict[Kind, Emitter]):
    """Of one function of a guard: one for each kind, made when it is first needed."""

    def __init__(self, listeners: Sequence[Listener], namespace: str, name: str = "") -> None:
        super().__init__()
        self._of = listeners, namespace, name

    def __missing__(self, kind: Kind) -> Emitter:
        listeners, namespace, name = self._of
        emitter = self[kind] = Emitter(listeners, kind, namespace, name)
        return emitter


def _count_of(listener: object, kind: Kind, namespace: str, name: str) -> "itertools.count[int] | None":
    """What to add one to for a listener that only counts; None for one that needs the event, whatever it calls `count_of`."""
    count_of = getattr(listener, "count_of", None)
    try:
        found = None if count_of is None else count_of(kind, namespace, name)
    except Exception:
        logger.exception("An event listener failed to count; it gets the events instead")
        return None
    return found if isinstance(found, itertools.count) else None


def count_from_zero(
    listeners: Sequence[Listener], kinds: Iterable[Kind], namespace: str, name: str = ""
) -> None:
    """Make the counts of what may happen, before it does.

    A counter that appears with the first event has never been 0: whoever asks how much it grew is told that it did not.
    """
    for listener in listeners:
        count_of = getattr(listener, "count_of", None)
        try:
            if count_of is not None:
                for kind in kinds:
                    count_of(kind, namespace, name)
        except Exception:
            logger.exception("An event listener failed to count; it gets the events instead")


def publish(listeners: Sequence[Listener], event: Event) -> None:
    for listener in listeners:
        try:
            listener(event)
        except Exception:
            logger.exception("An event listener failed; the guarded call goes on")
