# No twin: the process here, the event loop in the async counterpart.
"""Where connections belong, for threads."""

import os
import threading
import time
from collections.abc import Callable, Iterable
from typing import TypeVar

T = TypeVar("T")
sleep = time.sleep
_process = object()


def home() -> object:
    """Connections made before a fork cannot be used after it."""
    return _process


def _after_fork() -> None:
    global _process  # noqa: PLW0603 - one marker per process is the point
    _process = object()


os.register_at_fork(after_in_child=_after_fork)


class Mutex:
    """A lock that a forked child finds open, whoever held it in the parent."""

    def __init__(self) -> None:
        self._locks: dict[object, threading.Lock] = {}

    def __enter__(self) -> None:
        self._locks.setdefault(home(), threading.Lock()).acquire()

    def __exit__(self, *_: object) -> None:
        self._locks[home()].release()


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


class Turnstile:
    """Lets a bounded number in at a time."""

    def __init__(self, places: int) -> None:
        self._places = threading.Semaphore(places)

    def enter(self, seconds: float) -> bool:
        return self._places.acquire(timeout=seconds)

    def leave(self) -> None:
        self._places.release()
