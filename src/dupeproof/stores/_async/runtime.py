# No twin: the event loop here, the process in the sync counterpart.
"""Where connections belong, and doing several things at a time, for tasks."""

import asyncio
from collections.abc import Callable, Coroutine, Iterable
from contextlib import nullcontext
from typing import Any, TypeVar

T = TypeVar("T")
sleep = asyncio.sleep
Mutex = nullcontext
"""Between two awaits a task has the loop to itself, so there is nothing to lock."""


def home() -> object:
    """Connections made in one loop cannot be used from another."""
    return asyncio.get_running_loop()


async def gather(works: Iterable[Callable[[], Coroutine[Any, Any, T]]]) -> list[T]:
    """All of them at once, each to its end; then the first error, if there was one."""
    results = await asyncio.gather(*(work() for work in works), return_exceptions=True)
    for result in results:
        if isinstance(result, BaseException):
            raise result
    return results  # type: ignore[return-value]


class Turnstile:
    """Lets a bounded number in at a time."""

    def __init__(self, places: int) -> None:
        self._places = asyncio.Semaphore(places)

    async def enter(self, seconds: float) -> bool:
        if not self._places.locked():
            return await self._places.acquire()
        try:
            async with asyncio.timeout(seconds):
                return await self._places.acquire()
        except TimeoutError:
            return False

    def leave(self) -> None:
        self._places.release()
