# No twin: tasks and timers here, threads in the sync counterpart.
"""What the guards need of the event loop: sleeping, shielding, calling, and the heartbeat of open claims."""

import asyncio
import time
from collections.abc import Awaitable, Coroutine
from typing import Any, TypeVar

from dupeproof.core.events import logger
from dupeproof.core.protocols import AsyncStore
from dupeproof.guards.beating import Beating, Pulse

IS_ASYNC = True
T = TypeVar("T")
sleep = asyncio.sleep
_shielded: set[asyncio.Task[Any]] = set()
"""The loop itself keeps only weak references to its tasks."""


async def settle(value: Awaitable[T] | T) -> T:
    """The value of a call, awaited where it needs to be."""
    return await value if isinstance(value, Awaitable) else value


async def shielded(work: Coroutine[Any, Any, T]) -> T:
    """Let a write that tells of a finished effect reach the store although its caller was cancelled."""
    task = asyncio.ensure_future(work)
    _shielded.add(task)
    task.add_done_callback(_shielded.discard)
    return await asyncio.shield(task)


class Heartbeat:
    """Renews open claims every third of their lease, from timers of the loop they were made in.

    A handler that blocks the loop for longer than its lease also blocks these timers: the claim may then go to
    someone else, and its finish will be refused.
    """

    def __init__(self, store: AsyncStore) -> None:
        self._store = store
        self._pulse = Pulse()
        self._loop: asyncio.AbstractEventLoop | None = None
        self._timer: asyncio.TimerHandle | None = None
        self._renewal: asyncio.Task[None] | None = None

    def watch(self, claim: Beating) -> None:
        if self._pulse.add(claim, time.monotonic()) or self._loop is not asyncio.get_running_loop():
            self._arm(asyncio.get_running_loop())

    def unwatch(self, claim: Beating) -> None:
        self._pulse.remove(claim)

    def stop(self) -> None:
        self._pulse.clear()
        if self._timer is not None:
            self._timer.cancel()
            self._timer = None

    def _arm(self, loop: asyncio.AbstractEventLoop) -> None:
        if self._timer is not None:
            self._timer.cancel()
        self._loop = loop
        first = self._pulse.promise()
        delay = None if first is None else max(0.0, first - time.monotonic())
        self._timer = None if delay is None else loop.call_later(delay, self._tick, loop)

    def _tick(self, loop: asyncio.AbstractEventLoop) -> None:
        self._renewal = loop.create_task(self._renew(loop))

    async def _renew(self, loop: asyncio.AbstractEventLoop) -> None:
        now = time.monotonic()
        due = self._pulse.due(now)
        if due:
            try:
                answers = await self._store.renew([claim.renewal() for claim in due])
                self._pulse.renewed(due, answers, now)
            except Exception:
                logger.exception("Renewing %d claims failed; trying again soon", len(due))
                self._pulse.postpone(due, now)
        self._arm(loop)
