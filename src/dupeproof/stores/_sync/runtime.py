# No twin: the process here, the event loop in the async counterpart.
"""Where connections belong, for threads."""

import os
import threading
import time
from collections.abc import Iterable
from typing import TypeVar

T = TypeVar("T")
sleep = time.sleep
Mutex = threading.Lock
_process = object()


def home() -> object:
    """Connections made before a fork cannot be used after it."""
    return _process


def _after_fork() -> None:
    global _process  # noqa: PLW0603 - one marker per process is the point
    _process = object()


os.register_at_fork(after_in_child=_after_fork)


def gather(results: Iterable[T]) -> list[T]:
    return list(results)


class Turnstile:
    """Lets a bounded number in at a time."""

    def __init__(self, places: int) -> None:
        self._places = threading.Semaphore(places)

    def enter(self, seconds: float) -> bool:
        return self._places.acquire(timeout=seconds)

    def leave(self) -> None:
        self._places.release()
