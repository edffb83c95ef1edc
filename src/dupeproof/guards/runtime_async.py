# No twin: tasks and timers here, threads in the sync counterpart.
"""What the guards need of the event loop: sleeping, shielding, calling, and sending to a store that was away."""

import asyncio
from collections.abc import Awaitable, Callable, Coroutine, Iterable
from typing import Any, Generic, TypeVar

from dupeproof import forks
from dupeproof.core.events import logger
from dupeproof.errors import StoreUnavailable
from dupeproof.guards.heartbeat import MOST_AFTERWARDS, pauses

IS_ASYNC = True
CANCELLED = asyncio.CancelledError
UNANSWERED = (StoreUnavailable, CANCELLED)
"""How a call to the store can end without an answer."""
_PATIENCE = 10.0
C = TypeVar("C")
T = TypeVar("T")
sleep = asyncio.sleep
_shielded: set[asyncio.Task[Any]] = set()
"""The loop itself keeps only weak references to its tasks."""


async def awaited(value: Awaitable[T] | T) -> T:
    """The value of a call, awaited where it needs to be."""
    return await value if isinstance(value, Awaitable) else value


async def insisting(write: Callable[[C], Coroutine[Any, Any, T]], changes: C) -> T:
    """Let a write that records an effect reach the store although its caller was cancelled.

    It is one that may be sent twice. So it needs no task of its own until the caller is cancelled, which nearly none is.
    """
    try:
        return await write(changes)
    except asyncio.CancelledError:
        try:
            await shielded(write(changes))
        except StoreUnavailable as exc:
            # Whoever cancelled must not get another error.
            logger.warning("A write that outlived its cancelled caller failed: %s", exc)
        raise


async def shielded(work: Coroutine[Any, Any, T]) -> T:
    """Let a write that records an effect reach the store although its caller was cancelled, who then waits for it.

    Waiting matters: the loop may end right after the caller, and would take the write with it.
    """
    task = asyncio.ensure_future(work)
    _shielded.add(task)
    task.add_done_callback(_shielded.discard)
    try:
        return await asyncio.shield(task)
    except asyncio.CancelledError:
        await asyncio.wait([task], timeout=_PATIENCE)
        if task.done() and not task.cancelled() and task.exception() is not None:
            logger.warning("A write that outlived its cancelled caller failed: %s", task.exception())
        raise


class Afterwards(Generic[C]):
    """Changes that are still to be sent to the store although nobody waits for them; tried again by a task until it answers."""

    def __init__(self, send: Callable[[list[C]], Coroutine[Any, Any, None]]) -> None:
        self._send = send
        self._changes: list[C] = []
        self._task: asyncio.Task[None] | None = None
        forks.reset_in_children(self)

    def after_fork(self) -> None:
        self._changes, self._task = [], None

    def add(self, changes: Iterable[C]) -> None:
        forks.look()
        self._changes += list(changes)[: MOST_AFTERWARDS - len(self._changes)]
        if self._task is None or self._task.done() or self._task.get_loop().is_closed():
            self._task = asyncio.get_running_loop().create_task(self._work())

    async def stop(self) -> None:
        """Give up what is left: nothing reaches the store after this."""
        forks.look()
        self._changes = []
        task, self._task = self._task, None
        if task is not None and task.get_loop() is asyncio.get_running_loop():
            task.cancel()
            await asyncio.wait([task])

    async def _work(self) -> None:
        for pause in pauses():
            await sleep(pause)
            changes = list(self._changes)
            if not changes:
                return
            try:
                await self._send(changes)
            except StoreUnavailable:
                continue
            except Exception:
                logger.exception("%d claims could not be reported to the store", len(changes))
            self._changes = self._changes[len(changes) :]
