"""Questions to a store that cost it something: asked when somebody wants to know, but not too often."""

import asyncio
import time
from collections.abc import Awaitable, Callable
from typing import Generic, TypeVar

from msgspec import Struct

from dupeproof.errors import DupeproofError

T = TypeVar("T")
_REST = 20
"""Times as long as the answer took: what is asked takes at most a twentieth of the store's time."""
_SHORTEST = 2.0
_PATIENCE = 1.0
"""Seconds that a page waits for an answer; after these it is shown without, and the answer is there for the next."""


class Answer(Struct, Generic[T], frozen=True, kw_only=True):
    value: T | None = None
    error: str = ""
    """Why there is no value; both empty while the first answer is on its way."""
    age: float = 0.0


class Look(Generic[T]):
    """One question. Any number of pages may ask it at once; the store hears it once."""

    def __init__(self, ask: Callable[[], Awaitable[T]], *, shortest: float = _SHORTEST) -> None:
        self._ask = ask
        self._shortest = shortest
        self._task: asyncio.Task[None] | None = None
        self._answer: Answer[T] = Answer()
        self._answered_at = 0.0
        self._ask_again_at = 0.0

    async def __call__(self) -> Answer[T]:
        if self._task is None and time.monotonic() >= self._ask_again_at:
            self._task = asyncio.create_task(self._look())
        task = self._task
        if task is not None:
            await asyncio.wait({task}, timeout=_PATIENCE)
            if task.done():
                task.result()  # raises what nobody expected
        age = time.monotonic() - self._answered_at
        return Answer(value=self._answer.value, error=self._answer.error, age=age)

    def outdated(self) -> None:
        """Something was changed: ask again the next time."""
        self._ask_again_at = 0.0

    async def _look(self) -> None:
        began = time.monotonic()
        try:
            self._answer = Answer(value=await self._ask())
        except DupeproofError as exc:
            self._answer = Answer(error=str(exc))
        finally:
            self._answered_at = time.monotonic()
            self._ask_again_at = self._answered_at + max(self._shortest, _REST * (self._answered_at - began))
            self._task = None
