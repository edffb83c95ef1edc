"""Handlers that come to their end although their client has gone."""

import asyncio
from collections.abc import Awaitable, Callable, Coroutine
from typing import Any, TypeVar

from dupeproof import defaults
from dupeproof.core.durations import Duration, milliseconds
from dupeproof.core.events import logger

T = TypeVar("T")


async def _always() -> bool:
    return True


class Detached:
    """The handlers of one guard, each in a task of its own, and how long a server that shuts down waits for them."""

    def __init__(self, drain: Duration = defaults.HANDLER_DRAIN) -> None:
        self._drain = milliseconds(drain, name="drain") / 1_000
        self._tasks: set[asyncio.Task[Any]] = set()
        """The loop itself keeps only weak references to its tasks."""

    async def run(
        self,
        work: Coroutine[Any, Any, T],
        *,
        left: Callable[[], None] = lambda: None,
        until: Callable[[], bool] = lambda: False,
        waits: Callable[[], Awaitable[bool]] = _always,
    ) -> T:
        """The result of the work. If the caller is cancelled, `left` is called and the work goes on.

        It is cancelled, too, if `until` says that nothing is left to be brought to an end. A caller that `waits` ends no
        sooner than the work: servers that shut down wait for it, and frameworks leave it what it needs. But not for longer
        than a server is to wait: some wait for their requests without end.
        """
        task = asyncio.ensure_future(work)
        self._tasks.add(task)
        task.add_done_callback(self._tasks.discard)
        try:
            return await asyncio.shield(task)
        except asyncio.CancelledError:
            if task.done():
                raise
            left()
            if until():
                task.add_done_callback(_report_error)
                task.cancel()
            else:
                task.add_done_callback(_report)
            if await waits():
                await self._outlast(task)
            raise

    async def _outlast(self, task: asyncio.Task[Any]) -> None:
        loop = asyncio.get_running_loop()
        ends = loop.time() + self._drain
        while not task.done() and (left := ends - loop.time()) > 0:
            await _despite_cancellation(task, left)

    async def drain(self) -> None:
        """Wait for the handlers of this loop that still run; those that take longer are cancelled, and their keys kept."""
        loop = asyncio.get_running_loop()
        running = [task for task in self._tasks if task.get_loop() is loop]
        if not running:
            return
        _, late = await asyncio.wait(running, timeout=self._drain)
        if late:
            logger.warning(
                "%d handlers were cut off %g s after the server began to shut down; their keys stay taken until their "
                "leases are over, and are then run again or held, as `on_abandoned` says",
                len(late),
                self._drain,
            )
            for task in late:
                task.cancel()
            await asyncio.wait(late, timeout=1)


async def _despite_cancellation(task: asyncio.Task[Any], seconds: float) -> None:
    try:
        await asyncio.wait([task], timeout=seconds)
    except asyncio.CancelledError:
        logger.debug("A request was cancelled again while its handler comes to its end")


def _report(task: asyncio.Task[Any]) -> None:
    """Nobody else hears of how it ended."""
    if task.cancelled():
        logger.warning(
            "A handler was cut off after its client had gone; its key stays taken until its lease is over"
        )
    else:
        _report_error(task)


def _report_error(task: asyncio.Task[Any]) -> None:
    if not task.cancelled() and (error := task.exception()) is not None:
        logger.error("A handler failed after its client had gone", exc_info=error)
