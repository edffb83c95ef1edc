# No twin: timers of the loop here, a thread in the sync counterpart.
"""The heartbeat of open claims, for tasks. The schedule is in `heartbeat.py`."""

import asyncio
import time
from weakref import WeakKeyDictionary

from dupeproof.core.events import logger
from dupeproof.core.protocols import AsyncStore
from dupeproof.errors import StoreUnavailable
from dupeproof.guards.heartbeat import Renewable, RenewalSchedule


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
