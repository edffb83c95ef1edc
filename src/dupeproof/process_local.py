# No twin: the process here, the event loop in the async counterpart.
"""Where connections belong: to the process they were made in."""

import threading
from collections.abc import Callable
from typing import Generic, TypeVar

from dupeproof import forks

T = TypeVar("T")
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
