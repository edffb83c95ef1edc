# No twin: the process here, the event loop in the async counterpart.
"""Doing several things at a time, for threads."""

import threading
import time
from collections.abc import Callable, Iterable
from functools import partial
from queue import Empty, SimpleQueue
from typing import TypeVar

T = TypeVar("T")
sleep = time.sleep
Lock = threading.Lock


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
