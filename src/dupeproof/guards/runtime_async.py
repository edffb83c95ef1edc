# No twin: tasks and timers here, threads in the sync counterpart.
"""What the guards need of the event loop: sleeping, shielding, calling, and the heartbeat of open claims."""

import asyncio
import time
from collections.abc import Awaitable, Callable, Coroutine, Iterable
from typing import Any, Generic, TypeVar
from weakref import WeakKeyDictionary

from dupeproof import forks
from dupeproof.core.events import logger
from dupeproof.core.protocols import AsyncStore
from dupeproof.errors import StoreUnavailable
from dupeproof.guards.heartbeat import MOST_AFTERWARDS, Renewable, RenewalSchedule, pauses

IS_ASYNC = True
CANCELLED = asyncio.CancelledError
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
    """Let a write that tells of an effect reach the store although its caller was cancelled.

    It is one that may be sent twice. So it needs no task of its own until the caller is cancelled, which nearly none is.
    """
    try:
        return await write(changes)
    except asyncio.CancelledError:
        try:
            await shielded(write(changes))
        except StoreUnavailable as exc:
            # Whoever cancelled must not be told of something else.
            logger.warning("A write that outlived its cancelled caller failed: %s", exc)
        raise


async def shielded(work: Coroutine[Any, Any, T]) -> T:
    """Let a write that tells of an effect reach the store although its caller was cancelled, who then waits for it.

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


class _LoopBeat:
    """The heartbeat of the claims made in one loop."""

    def __init__(self, store: AsyncStore, loop: asyncio.AbstractEventLoop) -> None:
        self._store = store
        self._loop = loop
        self._timer: asyncio.TimerHandle | None = None
        self._renewal: asyncio.Task[None] | None = None
        self.schedule = RenewalSchedule()

    def arm(self) -> None:
        if self._timer is not None:
            self._timer.cancel()
        first = self.schedule.promise()
        delay = None if first is None else max(0.0, first - time.monotonic())
        self._timer = None if delay is None else self._loop.call_later(delay, self._tick)

    def _tick(self) -> None:
        self._renewal = self._loop.create_task(self.renew())
        # Also when it was cancelled before its first step, and so has armed nothing.
        self._renewal.add_done_callback(lambda _: self.arm())

    async def renew(self) -> None:
        now = time.monotonic()
        due = self.schedule.due(now)
        try:
            if due and not await self._renewed(due, now) and len(due) > 1:
                # One key that cannot be reached must not cost the others their claims.
                for claim in due:
                    await self._renewed([claim], now)
        finally:
            self.arm()

    async def end(self) -> None:
        if self._renewal is not None and not self._renewal.done():
            self._renewal.cancel()
            await asyncio.wait([self._renewal])
        self.arm()  # for nothing: who uses the guard again must not rely on a timer that is gone

    async def _renewed(self, due: list[Renewable], now: float) -> bool:
        try:
            answers = await self._store.renew([claim.renewal() for claim in due])
        except StoreUnavailable as exc:
            logger.warning("Renewing %d claims failed; trying again soon: %s", len(due), exc)
        except Exception:
            logger.exception("Renewing %d claims failed; trying again soon", len(due))
        else:
            self.schedule.renewed(due, answers, now)
            return True
        self.schedule.postpone(due, now)
        return False


class Heartbeat:
    """Renews open claims every third of their lease, from timers of the loop they were made in.

    A handler that blocks the loop for longer than its lease also blocks these timers: the claim may then go to
    someone else, and its finish will be refused.
    """

    def __init__(self, store: AsyncStore) -> None:
        self._store = store
        self._beats: WeakKeyDictionary[asyncio.AbstractEventLoop, _LoopBeat] = WeakKeyDictionary()

    def watch(self, claim: Renewable) -> RenewalSchedule:
        """Keep the claim alive, until it is removed from the schedule that is returned."""
        loop = asyncio.get_running_loop()
        beat = self._beats.get(loop)
        if beat is None:
            beat = self._beats[loop] = _LoopBeat(self._store, loop)
        if beat.schedule.add(claim, time.monotonic()):
            beat.arm()
        return beat.schedule

    async def catch_up(self) -> None:
        """Renew what is due by now, for one who calls many functions in a row: none of them may let the loop turn."""
        beat = self._beats.get(asyncio.get_running_loop())
        if beat is not None and beat.schedule.is_late(time.monotonic()):
            await beat.renew()

    async def stop(self) -> None:
        """End the renewal that is under way, unless claims are still open: those are kept alive to their end."""
        beat = self._beats.get(asyncio.get_running_loop())
        if beat is not None and not beat.schedule:
            await beat.end()


class Afterwards(Generic[C]):
    """What the store is still to be told although nobody waits for it; tried again by a task until it answers."""

    def __init__(self, tell: Callable[[list[C]], Coroutine[Any, Any, None]]) -> None:
        self._tell = tell
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
                await self._tell(changes)
            except StoreUnavailable:
                continue
            except Exception:
                logger.exception("The store could not be told of %d claims", len(changes))
            self._changes = self._changes[len(changes) :]
