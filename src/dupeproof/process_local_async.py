# No twin: the event loop here, the process in the sync counterpart.
"""Where connections belong: to the event loop they were made in."""

import asyncio
from collections.abc import Callable
from typing import Generic, TypeVar

from dupeproof import forks

T = TypeVar("T")
_inherited: list[object] = []
"""What a parent process opened. Closing it here could end the parent's conversations."""


class PerLoop(Generic[T]):
    """One of a thing for each event loop that asks: connections made in one cannot be used from another."""

    def __init__(self, make: Callable[[], T], discard: Callable[[T], None]) -> None:
        self._make = make
        self._discard = discard
        self._made: dict[asyncio.AbstractEventLoop, T] = {}
        self._last: tuple[asyncio.AbstractEventLoop | None, T | None] = (None, None)
        """Nearly always the one that asks again."""
        forks.reset_in_children(self)

    def after_fork(self) -> None:
        """A child may go on in a copy of its parent's loop; what was connected in it is still the parent's."""
        _inherited.append(self._made)
        self._made, self._last = {}, (None, None)

    def get(self) -> T:
        if not forks.page[0]:
            forks.look()
        loop = asyncio.get_running_loop()
        last, made = self._last
        if loop is last and made is not None:
            return made
        made = self._made.get(loop)
        if made is None:
            self._sweep()
            made = self._made[loop] = self._make()
        self._last = (loop, made)
        return made

    def take(self) -> T | None:
        """What there is for this loop, to be closed; the next `get` makes it anew."""
        forks.look()
        self._last = (None, None)
        self._sweep()
        return self._made.pop(asyncio.get_running_loop(), None)

    def _sweep(self) -> None:
        """A loop that has ended leaves its connections open: nobody was there to close them."""
        for loop in list(self._made):  # in one piece: loops of other threads come and go meanwhile
            if loop.is_closed() and (left := self._made.pop(loop, None)) is not None:
                self._discard(left)
