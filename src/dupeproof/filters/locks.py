"""A lock that a forked child finds open, whatever the threads of its parent were doing."""

import os
import threading
import weakref
from types import TracebackType


class Lock:
    def __init__(self) -> None:
        self._lock = threading.Lock()
        _all.add(self)

    def __enter__(self) -> None:
        self._lock.acquire()

    def __exit__(
        self, kind: type[BaseException] | None, exc: BaseException | None, traceback: TracebackType | None
    ) -> None:
        self._lock.release()

    def after_fork(self) -> None:
        self._lock = threading.Lock()


_all: "weakref.WeakSet[Lock]" = weakref.WeakSet()


def _after_fork() -> None:
    for each in list(_all):
        each.after_fork()


os.register_at_fork(after_in_child=_after_fork)
