# No twin: the process here, the event loop in the async counterpart.
"""Where connections belong, for threads."""

import threading
import time
from collections.abc import Callable, Iterable
from functools import partial
from queue import Empty, SimpleQueue
from typing import Generic, TypeVar

from dupeproof import forks

T = TypeVar("T")
sleep = time.sleep
Lock = threading.Lock
_inherited: list[object] = []
"""What a parent process opened. Closing it here could end the parent's conversations."""


class PerProcess(Generic[T]):
    """One of a thing for each process that asks: connections made before a fork cannot be used after it."""

    def __init__(self, make: Callable[[], T], discard: Callable[[T], None]) -> None:
        del discard  # nothing is left behind in one process
        self._make = make
        self._made: T | None = None
        self._lock = threading.Lock()
        forks.reset_in_children(self)

    def get(self) -> T:
        if not forks.page[0]:
            forks.look()
        made = self._made
        if made is None:
            with self._lock:
                if self._made is None:
                    self._made = self._make()
                made = self._made
        return made

    def take(self) -> T | None:
        """What there is, to be closed; the next `get` makes it anew."""
        forks.look()
        with self._lock:
            made, self._made = self._made, None
        return made

    def after_fork(self) -> None:
        _inherited.append(self._made)
        self._made, self._lock = None, threading.Lock()


def gather(works: Iterable[Callable[[], T]]) -> list[T]:
    """One after the other, each to its end; then the first error, if there was one."""
    results: list[T] = []
    failure: Exception | None = None
    for work in works:
        try:
            results.append(work())
        except Exception as exc:  # noqa: BLE001 - raised below, when the others have had their turn
            failure = failure or exc
    if failure is not None:
        raise failure
    return results


def within(seconds: float, work: Callable[[], T]) -> T:  # noqa: ARG001
    """For a thread there are only the limits of what it calls."""
    return work()


to_the_end = within


class Turnstile:
    """Lets a bounded number in at a time. A queue of places, because the standard semaphore is written in Python."""

    def __init__(self, places: int) -> None:
        self._places: SimpleQueue[None] = SimpleQueue()
        self.leave = partial(self._places.put, None)
        for _ in range(places):
            self.leave()

    def enter(self, seconds: float) -> bool:
        try:
            self._places.get(timeout=max(0.0, seconds))
        except Empty:
            return False
        return True
