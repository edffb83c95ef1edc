"""What all claims of one guard share, and the patience with which they speak to the store."""

import time
from collections.abc import Callable, Iterable
from itertools import chain, repeat

from msgspec.structs import replace

from dupeproof.core import outcomes
from dupeproof.core.events import Listener, logger
from dupeproof.core.protocols import AsyncStore, AsyncWaitable
from dupeproof.core.records import NOT_REPLAYABLE, ClaimRequest, Fail, Finish, Release
from dupeproof.core.states import State
from dupeproof.errors import StoreUnavailable
from dupeproof.guards.cache import FinishedCache
from dupeproof.guards.heartbeat_async import Heartbeat
from dupeproof.guards.results import DeadCall
from dupeproof.guards.runtime_async import CANCELLED, UNANSWERED, Afterwards, insisting, shielded, sleep

_FIRST_POLL = 0.005
_LONGEST_POLL = 0.25
_RETRIES = (0.05, 0.2, 0.75)
_LONGEST_PAUSE = 1.0


class AsyncEngine:
    def __init__(
        self,
        store: AsyncStore,
        listeners: Iterable[Listener],
        on_dead: Callable[[DeadCall], object] | None,
        cache: FinishedCache | None,
    ) -> None:
        self.store = store
        self.heartbeat = Heartbeat(store)
        self.listeners = tuple(listeners)
        self.on_dead = on_dead
        self.cache = cache
        self._waitable = store if isinstance(store, AsyncWaitable) else None
        self._afterwards = Afterwards(self._report)

    async def ask(self, requests: list[ClaimRequest]) -> list[outcomes.Outcome]:
        try:
            return await self.store.claim(requests)
        except BaseException as exc:
            await self.unanswered(requests, exc)
            raise

    async def unanswered(self, requests: list[ClaimRequest], error: BaseException) -> None:
        """The claims may have been granted all the same, and only the answer be lost: nobody will work on them."""
        if isinstance(error, StoreUnavailable):
            self._afterwards.add(map(handing_back, requests))
        elif not isinstance(error, Exception):
            await self.unask(requests)

    async def ask_patiently(self, request: ClaimRequest, patience: float) -> outcomes.Outcome:
        """Ask again for that many seconds, until the key is not busy any more."""
        deadline = time.monotonic() + patience
        pause = _FIRST_POLL
        while True:
            [outcome] = await self.ask([request])
            left = deadline - time.monotonic()
            if type(outcome) is not outcomes.Busy or left <= 0:
                return outcome
            until_over = max(outcome.lease_left / 1_000, _FIRST_POLL)
            if self._waitable is not None:
                await self._waitable.wait(request.key, min(left, until_over))
            else:
                await sleep(min(left, until_over, pause))
                pause = min(pause * 1.5, _LONGEST_POLL)

    async def unask(self, requests: Iterable[ClaimRequest]) -> None:
        """Before any work: hand back what may have been granted, now or when the store answers again."""
        await self.release(list(map(handing_back, requests)))

    async def release(self, changes: list[Release]) -> list[bool]:
        """False for those that were no longer ours, as far as the store knows now."""
        return await insisting(self._release, changes)

    async def _release(self, changes: list[Release]) -> list[bool]:
        try:
            return await self.store.release(changes)
        except StoreUnavailable:
            self._afterwards.add(changes)
            return [True] * len(changes)

    async def finish(self, changes: list[Finish], lease: int) -> list[tuple[bool, Finish]]:
        """Whether each claim was ours, and what was stored in the end."""
        give_up = time.monotonic() + lease / 1_000
        try:
            answers = await self.store.finish(changes)
        except UNANSWERED as exc:
            return await self.finish_again(changes, exc, give_up)
        return list(zip(answers, changes, strict=True))

    async def finish_again(
        self, changes: list[Finish], error: BaseException, give_up: float
    ) -> list[tuple[bool, Finish]]:
        """A finish was not answered. Whether each claim was ours, and what was stored in the end.

        Worth repeating, for as long as a lease: an effect that is not recorded may happen again. A value that the store
        will not take is recorded as done without it, for the same reason. And a caller who is cancelled meanwhile waits
        for it: it may be sent twice, so it needs no task of its own until then.
        """
        try:
            if not isinstance(error, StoreUnavailable):
                raise error
            return await self._finish_until(changes, error, give_up)
        except CANCELLED:
            left = max(0, int((give_up - time.monotonic()) * 1_000))
            try:
                await shielded(self.finish(changes, left))
            except StoreUnavailable as exc:
                # Whoever cancelled must not get another error, or find the call going on.
                logger.warning("Work of a call that was cancelled is done and not recorded: %s", exc)
            raise

    async def _finish_until(
        self, changes: list[Finish], error: StoreUnavailable, give_up: float
    ) -> list[tuple[bool, Finish]]:
        if error.refused and len(changes) > 1:
            left = max(0, int((give_up - time.monotonic()) * 1_000))
            return [(await self.finish([change], left))[0] for change in changes]
        for pause in chain(_RETRIES, repeat(_LONGEST_PAUSE)):
            if error.refused and changes[0].codec != NOT_REPLAYABLE:
                logger.warning(
                    "A result was refused by the store, and is recorded as not replayable: %s", error
                )
                changes = [replace(changes[0], codec=NOT_REPLAYABLE, result=b"")]
            elif time.monotonic() >= give_up:
                break
            else:
                await sleep(min(pause, give_up - time.monotonic()))
            try:
                answers = await self.store.finish(changes)
            except StoreUnavailable as exc:
                error = exc
            else:
                return list(zip(answers, changes, strict=True))
        raise error

    def drop(self, key: bytes) -> None:
        if self.cache is not None:
            self.cache.drop(key)

    async def learn(self, key: bytes, drops: int) -> None:
        """Keep a finished record in the cache. Its claim has the result, but not how long that will be good."""
        assert self.cache is not None
        asked = time.monotonic()
        try:
            [found] = await self.store.get([key])
        except StoreUnavailable:
            return  # a replay has been answered; it will be asked for again
        if found is not None and found.record.state is State.DONE:
            record = found.record
            done = outcomes.Done(record.result, record.codec, record.attempt)
            until = asked + (record.expires_at - found.now) / 1_000
            self.cache.keep(key, record.fingerprint, done, until=until, drops=drops)

    async def fail(self, change: Fail) -> bool:
        """Worth repeating where it is the last attempt, which only the one who made it can report to the hook.

        The others are sent when the store answers again, if need be after the call has raised the error of its work.
        """
        for pause in _RETRIES if change.dead else ():
            try:
                [ours] = await self.store.fail([change])
            except StoreUnavailable:
                await sleep(pause)
            else:
                return ours
        try:
            [ours] = await self.store.fail([change])
        except StoreUnavailable:
            self._afterwards.add([change])
            raise
        return ours

    async def stop(self) -> None:
        """Renew no more, when the claims that are open have come to their end, and send the store nothing more."""
        await self.heartbeat.stop()
        await self._afterwards.stop()

    async def _report(self, changes: list[Release | Fail]) -> None:
        releases = [change for change in changes if isinstance(change, Release)]
        fails = [change for change in changes if isinstance(change, Fail)]
        if releases:
            await self.store.release(releases)
        if fails:
            await self.store.fail(fails)


def handing_back(request: ClaimRequest) -> Release:
    return Release(request.key, request.token, request.terms.window)
