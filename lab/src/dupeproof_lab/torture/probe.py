"""The probe inside a process under torture: it stops the process where a fault is to strike, and makes handlers fail and be slow.

A fault that strikes at random mostly finds nothing under way. So the coordinator orders a stop at a point; the first
thread that comes there says so and waits, until the fault has struck, or it is told to go on, or some seconds are over.
A process that has said "held" and not "released" was at that point when it was killed: that is the proof.
"""

import asyncio
import threading
import time
from collections.abc import Callable
from contextvars import ContextVar
from typing import Any

from dupeproof.brokers.base import Message
from dupeproof.core.crashes import Crash, armed
from dupeproof_lab.torture.faults import DOUBLE, FAILS, SLEEPS, UNNAMED, Point
from dupeproof_lab.torture.link import Link

_chunk: ContextVar["_Chunk | None"] = ContextVar("chunk", default=None)
HOLD_SECONDS = 4.0
"""The longest that a process waits for its fault. Less than it takes a broker to miss a consumer that waits."""
_OF_RELAY = (Point.CONFIRMED, Point.HALF_PUBLISHED)
_CRASH_POINTS = (Point.AFTER_MARK, Point.BEFORE_COMMIT, Point.AFTER_COMMIT, Point.CONFIRMED)


class OnPurpose(Exception):
    """The handler fails because the torture wants it to; the message has to come again."""


class _Chunk:
    """What a thread or a task has in hand: ids are asked for all of it, then it is worked on."""

    def __init__(self) -> None:
        self.ids: list[str] = []
        self.is_begun = False


class _Stop(Crash):
    """An armed crash point at which nobody dies."""

    def __init__(self, point: Point, at: Callable[[Point], None]) -> None:
        super().__init__(point, 1, kill=False)
        self._point, self._at = point, at

    def reached(self) -> None:
        self._at(self._point)


class Probe:
    def __init__(self, link: Link, *, tells_calls: bool) -> None:
        self._link = link
        self._tells_calls = tells_calls
        self._lock = threading.Lock()
        self._wanted: dict[str, Any] | None = None
        self._go = threading.Event()
        self._watched: frozenset[str] = frozenset()
        for point in _CRASH_POINTS:
            armed[point] = _Stop(point, self.at)

    def obey(self, order: dict[str, Any]) -> None:
        match order["order"]:
            case "hold":
                with self._lock:
                    self._go = threading.Event()
                    self._wanted = order
            case "go":
                with self._lock:
                    self._wanted = None
                    self._go.set()
            case "watch":
                self._watched = frozenset(order["ids"])

    def at(self, point: Point, message: Message | None = None) -> None:
        """Wait here if that was ordered; only the first who comes does."""
        with self._lock:
            wanted, go, chunk = self._wanted, self._go, _chunk.get()
            if wanted is None or wanted["point"] != point or not _fits(wanted, message):
                return
            if chunk is None and point not in _OF_RELAY:
                return  # a transaction of the consumer's own, as when it starts: no message would be struck
            self._wanted = None
            in_hand = [] if chunk is None else chunk.ids
            self._link.say({"held": wanted["number"], "point": point, "in_hand": in_hand})
        go.wait(HOLD_SECONDS)
        self._link.say({"released": wanted["number"]})

    def id_of(self, message: Message) -> str | None:
        """Asked of every message before it is worked on. What has a certain key counts as having no id."""
        ident, chunk = name(message), _chunk.get()
        if chunk is None or chunk.is_begun:
            chunk = _Chunk()
            _chunk.set(chunk)
        chunk.ids.append(ident)
        if ident in self._watched:
            self._watched = frozenset()
            self._link.say({"met": ident})
        return None if (message.key or "").startswith(UNNAMED) else message.id

    def around(self, message: Message, call_next: Callable[[Message], Any]) -> Any:
        """The middleware of a plain handler."""
        fails_after = self._begin(message)
        answer = call_next(message)
        self.at(Point.HANDLER, message)
        time.sleep(_seconds(message))
        self._end(message, fails_after)
        return answer

    async def around_async(self, message: Message, call_next: Callable[[Message], Any]) -> Any:
        fails_after = self._begin(message)
        answer = await call_next(message)
        await asyncio.to_thread(self.at, Point.HANDLER, message)
        await asyncio.sleep(_seconds(message))
        self._end(message, fails_after)
        return answer

    def _begin(self, message: Message) -> bool:
        """Whether it is to fail when its handler has returned; every other one does before."""
        if (chunk := _chunk.get()) is not None:
            chunk.is_begun = True
        if message.attempt > int(message.headers.get(FAILS, 0)):
            return False
        if message.attempt % 2 == 0:
            self._fail()
        return True

    def _end(self, message: Message, fails: bool) -> None:
        if fails:
            self._fail()
        if self._tells_calls:
            self._link.say({"called": name(message), "key": message.key, "at": time.monotonic()})

    def _fail(self) -> None:
        self._link.say({"failed": 1})
        raise OnPurpose("the torture lets this attempt fail; the message has to come again")


def name(message: Message) -> str:
    """The id it was added with, also where it counts as having none."""
    return str(message.json()["id"])


def _seconds(message: Message) -> float:
    return float(message.headers.get(SLEEPS, 0.0))


def _fits(wanted: dict[str, Any], message: Message | None) -> bool:
    """Where it is to be seen who takes over, of a message that was sent once; a copy of it would look the same."""
    if not wanted["alone"]:
        return True
    if message is None or DOUBLE in message.headers:
        return False
    return not wanted["unnamed"] or (message.key or "").startswith(UNNAMED)
