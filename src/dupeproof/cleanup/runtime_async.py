# No twin: a task here, a thread in the sync counterpart.
"""A background service as one task: started once, stopped for sure, never cancelled in the middle of its work."""

import asyncio
from collections.abc import Callable, Coroutine
from typing import Any

IS_ASYNC = True


class Stopping:
    """The wish to stop, which the work looks at between its steps."""

    def __init__(self) -> None:
        self._event = asyncio.Event()

    def set(self) -> None:
        self._event.set()

    def is_set(self) -> bool:
        return self._event.is_set()

    async def wait(self, seconds: float) -> bool:
        """Rest for so long; True, at once, when asked to stop."""
        try:
            async with asyncio.timeout(seconds):
                return await self._event.wait()
        except TimeoutError:
            return False


class Service:
    """Runs `work(stopping)` in a task of its own. Each start has its own `Stopping`."""

    def __init__(self, name: str, work: Callable[[Stopping], Coroutine[Any, Any, None]]) -> None:
        self._name = name
        self._work = work
        self._task: asyncio.Task[None] | None = None
        self._stopping = Stopping()

    @property
    def running(self) -> bool:
        # A task of a loop that was closed never becomes done, and never runs again either.
        return self._task is not None and not self._task.done() and not self._task.get_loop().is_closed()

    async def start(self) -> None:
        if not self.running:
            self._stopping = Stopping()
            self._task = asyncio.create_task(self._work(self._stopping), name=self._name)

    async def stop(self) -> None:
        task, self._task = self._task, None
        self._stopping.set()
        if task is None or task is asyncio.current_task():
            return  # work that stops itself ends by returning
        if task.get_loop() is asyncio.get_running_loop():
            await asyncio.wait([task])
