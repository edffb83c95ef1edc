"""What all claims of one guard share, and the patience with which they speak to the store."""

import time
from collections.abc import Callable, Iterable

from msgspec.structs import replace

from dupeproof.core import outcomes
from dupeproof.core.events import Listener, logger
from dupeproof.core.protocols import AsyncStore, AsyncWaitable
from dupeproof.core.records import NOT_REPLAYABLE, ClaimRequest, Fail, Finish, Release
from dupeproof.errors import StoreUnavailable
from dupeproof.guards._async.runtime import Heartbeat, insisting, sleep
from dupeproof.guards.results import DeadCall

_FIRST_POLL = 0.005
_LONGEST_POLL = 0.25
_RETRIES = (0.05, 0.2, 0.75)
_MOST_LEFT_OVER = 1_000


class AsyncEngine:
    def __init__(
        self,
        store: AsyncStore,
        listeners: Iterable[Listener],
        on_dead: Callable[[DeadCall], object] | None,
    ) -> None:
        self.store = store
        self.heartbeat = Heartbeat(store)
        self.listeners = tuple(listeners)
        self.on_dead = on_dead
        self._waitable = store if isinstance(store, AsyncWaitable) else None
        self._left_over: list[Release] = []

    async def ask(self, request: ClaimRequest, patience: float) -> outcomes.Outcome:
        """Claim; with patience, for that many seconds until the key is not busy any more."""
        try:
            [outcome] = await self.store.claim([request])
            if patience and type(outcome) is outcomes.Busy:
                outcome = await self._wait(request, outcome, patience)
        except StoreUnavailable:
            # The question may still be under way and be granted later, to nobody: to be handed back then.
            if len(self._left_over) < _MOST_LEFT_OVER:
                self._left_over.append(_handing_back(request))
            raise
        except Exception:
            raise
        except BaseException:
            await self.unask(request)
            raise
        if self._left_over:
            await self._hand_back_left_over()
        return outcome

    async def unask(self, request: ClaimRequest) -> None:
        """Interrupted before any work: hand back what may have been granted. If that fails, the lease is the bound."""
        try:
            await insisting(lambda: self.store.release([_handing_back(request)]))
        except StoreUnavailable:
            logger.info("A claim that was interrupted could not be handed back; its lease will run out")

    async def finish(self, change: Finish) -> tuple[bool, Finish]:
        """Whether the claim was ours, and what was stored in the end.

        Worth repeating: an effect that is not recorded may happen again. A value that the store will not take is
        recorded as done without it, for the same reason.
        """
        try:
            [ours] = await self.store.finish([change])
        except StoreUnavailable as exc:
            return await self._finish_again(change, exc)
        return ours, change

    async def _finish_again(self, change: Finish, error: StoreUnavailable) -> tuple[bool, Finish]:
        give_up = time.monotonic() + sum(_RETRIES)
        for pause in _RETRIES:
            if error.refused and change.codec != NOT_REPLAYABLE:
                logger.warning(
                    "A result was refused by the store, and is recorded as not replayable: %s", error
                )
                change = replace(change, codec=NOT_REPLAYABLE, result=b"")
            elif time.monotonic() > give_up:
                raise error
            else:
                await sleep(pause)
            try:
                [ours] = await self.store.finish([change])
            except StoreUnavailable as exc:
                error = exc
            else:
                return ours, change
        raise error

    async def fail(self, change: Fail) -> bool:
        """Worth repeating where it is the last attempt, which only the one who made it can tell the hook of."""
        for pause in _RETRIES if change.dead else ():
            try:
                [ours] = await self.store.fail([change])
            except StoreUnavailable:
                await sleep(pause)
            else:
                return ours
        [ours] = await self.store.fail([change])
        return ours

    async def _wait(
        self, request: ClaimRequest, outcome: outcomes.Outcome, patience: float
    ) -> outcomes.Outcome:
        deadline = time.monotonic() + patience
        pause = _FIRST_POLL
        while type(outcome) is outcomes.Busy and (left := deadline - time.monotonic()) > 0:
            until_over = max(outcome.lease_left / 1_000, _FIRST_POLL)
            if self._waitable is not None:
                await self._waitable.wait(request.key, min(left, until_over))
            else:
                await sleep(min(left, until_over, pause))
                pause = min(pause * 1.5, _LONGEST_POLL)
            [outcome] = await self.store.claim([request])
        return outcome

    async def _hand_back_left_over(self) -> None:
        left_over, self._left_over = self._left_over, []
        try:
            await self.store.release(left_over)
        except StoreUnavailable:
            self._left_over = left_over


def _handing_back(request: ClaimRequest) -> Release:
    return Release(request.key, request.token, request.terms.window)
