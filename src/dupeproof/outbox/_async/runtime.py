# No twin: tasks and a loop here, threads and system calls in the sync counterpart.
"""Opening sources, and resting until there is something to do, for tasks."""

import asyncio
import inspect
from collections.abc import Callable

from dupeproof.outbox.messages import Message
from dupeproof.outbox.sources import AsyncSource
from dupeproof.outbox.sources import open_async_source as open_source

__all__ = [
    "IS_ASYNC",
    "OTHER_KIND",
    "OTHER_RELAY",
    "Rest",
    "call",
    "open_source",
]
IS_ASYNC = True
OTHER_KIND, OTHER_RELAY = "sync", "Relay"
Source = AsyncSource


async def call(function: Callable[[Message], object], message: Message) -> None:
    answer = function(message)
    if inspect.isawaitable(answer):
        await answer


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
