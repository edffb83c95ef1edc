# No twin: tasks and a loop here, threads and system calls in the sync counterpart.
"""Opening sources, and resting until there is something to do, for tasks."""

import asyncio
import inspect
from collections.abc import Callable, Coroutine
from typing import Any, TypeVar

from dupeproof.outbox.failures import TooLate
from dupeproof.outbox.messages import Message
from dupeproof.outbox.sources import AsyncSource
from dupeproof.outbox.sources import open_async_source as open_source

__all__ = [
    "IS_ASYNC",
    "OTHER_KIND",
    "OTHER_RELAY",
    "Rest",
    "bounded",
    "call",
    "open_source",
]
T = TypeVar("T")
_LOOK = 0.1
"""Seconds between two looks at the time."""
_GOODBYE = 0.5
"""Seconds for what is cancelled late."""
IS_ASYNC = True
OTHER_KIND, OTHER_RELAY = "sync", "Relay"
Source = AsyncSource


async def call(function: Callable[[Message], object], message: Message) -> None:
    answer = function(message)
    if inspect.isawaitable(answer):
        await answer


async def bounded(work: Callable[[], Coroutine[Any, Any, T]], late: Callable[[], bool]) -> T:
    """What the work returns. When it is `late` before that, the work is cancelled, and `TooLate` is raised."""
    task = asyncio.create_task(work())
    try:
        while not task.done():
            await asyncio.wait([task], timeout=_LOOK)
            if late() and not task.done():
                raise TooLate("there was no answer until the time to stop was over")
        return task.result()
    finally:
        if not task.done():
            task.cancel()
            await asyncio.wait([task], timeout=_GOODBYE if late() else None)


class Rest:
    """Between two looks: ended by time, by word from the database, or by the wish to stop."""

    def __init__(self) -> None:
        self._event = asyncio.Event()
        self.stopping = False

    def stop(self) -> None:
        self.stopping = True
        self._event.set()

    async def wait(self, seconds: float, socket: int | None = None) -> None:
        loop = asyncio.get_running_loop()
        if socket is not None:
            loop.add_reader(socket, self._event.set)
        try:
            async with asyncio.timeout(seconds):
                await self._event.wait()
        except TimeoutError:
            return
        finally:
            if socket is not None:
                loop.remove_reader(socket)
            if not self.stopping:
                self._event.clear()
