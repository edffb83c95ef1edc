# Written by tools/twins.py from src/dupeproof/guards/_async/engine.py; change that file instead.
"""What all claims of one guard share, and the patience with which they speak to the store."""

import time
from collections.abc import Callable, Iterable

from msgspec.structs import replace

from dupeproof.core import outcomes
from dupeproof.core.events import Listener, logger
from dupeproof.core.protocols import Store, Waitable
from dupeproof.core.records import NOT_REPLAYABLE, ClaimRequest, Fail, Finish, Release
from dupeproof.errors import StoreUnavailable
from dupeproof.guards._sync.runtime import Heartbeat, sleep
from dupeproof.guards.results import DeadCall

_FIRST_POLL = 0.005
_LONGEST_POLL = 0.25
_RETRIES = (0.05, 0.2, 0.75)
_MOST_LEFT_OVER = 1_000


class Engine:
    def __init__(
        self,
        store: Store,
        listeners: Iterable[Listener],
        on_dead: Callable[[DeadCall], object] | None,
    ) -> None:
        self.store = store
        self.heartbeat = Heartbeat(store)
        self.listeners = tuple(listeners)
        self.on_dead = on_dead
        self._waitable = store if isinstance(store, Waitable) else None
        self._left_over: list[Release] = []

    def ask(self, request: ClaimRequest, patience: float) -> outcomes.Outcome:
        """Claim; with patience, for that many seconds until the key is not busy any more."""
        try:
            [outcome] = self.store.claim([request])
            if patience and type(outcome) is outcomes.Busy:
                outcome = self._wait(request, outcome, patience)
        except StoreUnavailable:
            # The question may still be under way and be granted later, to nobody: to be handed back then.
            if len(self._left_over) < _MOST_LEFT_OVER:
                self._left_over.append(_handing_back(request))
            raise
        except Exception:
            raise
        except BaseException:
            self.unask(request)
            raise
        if self._left_over:
            self._hand_back_left_over()
        return outcome

    def unask(self, request: ClaimRequest) -> None:
        """Interrupted before any work: hand back what may have been granted. If that fails, the lease is the bound."""
        try:
            self.store.release([_handing_back(request)])
        except StoreUnavailable:
            logger.info("A claim that was interrupted could not be handed back; its lease will run out")

    def finish(self, change: Finish) -> tuple[bool, Finish]:
        """Whether the claim was ours, and what was stored in the end.

        Worth repeating: an effect that is not recorded may happen again. A value that the store will not take is
        recorded as done without it, for the same reason.
        """
        try:
            [ours] = self.store.finish([change])
        except StoreUnavailable as exc:
            return self._finish_again(change, exc)
        return ours, change

    def _finish_again(self, change: Finish, error: StoreUnavailable) -> tuple[bool, Finish]:
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
                sleep(pause)
            try:
                [ours] = self.store.finish([change])
            except StoreUnavailable as exc:
                error = exc
            else:
                return ours, change
        raise error

    def fail(self, change: Fail) -> bool:
        """Worth repeating where it is the last attempt, which only the one who made it can tell the hook of."""
        for pause in _RETRIES if change.dead else ():
            try:
                [ours] = self.store.fail([change])
            except StoreUnavailable:
                sleep(pause)
            else:
                return ours
        [ours] = self.store.fail([change])
        return ours

    def _wait(self, request: ClaimRequest, outcome: outcomes.Outcome, patience: float) -> outcomes.Outcome:
        deadline = time.monotonic() + patience
        pause = _FIRST_POLL
        while type(outcome) is outcomes.Busy and (left := deadline - time.monotonic()) > 0:
            until_over = max(outcome.lease_left / 1_000, _FIRST_POLL)
            if self._waitable is not None:
                self._waitable.wait(request.key, min(left, until_over))
            else:
                sleep(min(left, until_over, pause))
                pause = min(pause * 1.5, _LONGEST_POLL)
            [outcome] = self.store.claim([request])
        return outcome

    def _hand_back_left_over(self) -> None:
        left_over, self._left_over = self._left_over, []
        try:
            self.store.release(left_over)
        except StoreUnavailable:
            self._left_over = left_over


def _handing_back(request: ClaimRequest) -> Release:
    return Release(request.key, request.token, request.terms.window)
