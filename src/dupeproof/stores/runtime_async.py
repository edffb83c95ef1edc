# No twin: the event loop here, the process in the sync counterpart.
"""Doing several things at a time, for tasks."""

import asyncio
from collections.abc import Awaitable, Callable, Coroutine, Iterable
from typing import Any, TypeVar

T = TypeVar("T")
sleep = asyncio.sleep
Lock = asyncio.Lock


async def gather(works: Iterable[Callable[[], Coroutine[Any, Any, T]]]) -> list[T]:
    """All of them at once, each to its end; then the first error, if there was one."""
    results = await asyncio.gather(*(work() for work in works), return_exceptions=True)
    for result in results:
        if isinstance(result, BaseException):
            raise result
    return results  # type: ignore[return-value]


async def within(seconds: float, work: Callable[[], Awaitable[T]]) -> T:
    """Given up after that time, with `TimeoutError`."""
    async with asyncio.timeout(max(0.0, seconds)):
        return await work()


async def to_the_end(seconds: float, work: Callable[[], Coroutine[Any, Any, T]]) -> T:
    """Given up after that time too, but not when the caller is cancelled: what he says next must not overtake it."""
    task = asyncio.ensure_future(work())
    try:
        done, _ = await asyncio.wait([task], timeout=max(0.0, seconds))
    except asyncio.CancelledError:
        try:
            await asyncio.wait([task], timeout=max(0.0, seconds))
        finally:
            if not task.cancel() and not task.cancelled():
                task.exception()  # nobody is left to get it
        raise
    if not done:
        task.cancel()
        await asyncio.wait([task])
        raise TimeoutError
    return task.result()


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
