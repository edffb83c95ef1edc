# Written by tools/twins.py from src/dupeproof/guards/_async/engine.py; change that file instead.
"""What all claims of one guard share, and the patience with which they speak to the store."""

import time
from collections.abc import Callable, Iterable

from msgspec.structs import replace

from dupeproof.core import outcomes
from dupeproof.core.events import Listener, logger
from dupeproof.core.protocols import Store, Waitable
from dupeproof.core.records import NOT_REPLAYABLE, ClaimRequest, Fail, Finish, Release
from dupeproof.core.states import State
from dupeproof.errors import StoreUnavailable
from dupeproof.guards._sync.runtime import CANCELLED, Heartbeat, sleep
from dupeproof.guards.cache import FinishedCache
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
        cache: FinishedCache | None,
    ) -> None:
        self.store = store
        self.heartbeat = Heartbeat(store)
        self.listeners = tuple(listeners)
        self.on_dead = on_dead
        self.cache = cache
        self._waitable = store if isinstance(store, Waitable) else None
        self._left_over: list[Release] = []

    def ask(self, requests: list[ClaimRequest]) -> list[outcomes.Outcome]:
        try:
            answers = self.store.claim(requests)
            if self._left_over:
                self._hand_back_left_over()
        except StoreUnavailable:
            # The question may still be under way and be granted later, to nobody: to be handed back then.
            room = _MOST_LEFT_OVER - len(self._left_over)
            self._left_over += map(_handing_back, requests[:room])
            raise
        except Exception:
            raise
        except BaseException:
            self.unask(requests)
            raise
        return answers

    def ask_patiently(self, request: ClaimRequest, patience: float) -> outcomes.Outcome:
        """Ask again for that many seconds, until the key is not busy any more."""
        deadline = time.monotonic() + patience
        pause = _FIRST_POLL
        while True:
            [outcome] = self.ask([request])
            left = deadline - time.monotonic()
            if type(outcome) is not outcomes.Busy or left <= 0:
                return outcome
            # A lease that is over although the key is busy is that of a call in this process, which needs none.
            over = outcome.lease_left <= 0
            until_over = _LONGEST_POLL if over else max(outcome.lease_left / 1_000, _FIRST_POLL)
            if self._waitable is not None:
                self._waitable.wait(request.key, min(left, until_over))
            else:
                sleep(min(left, until_over, pause))
                pause = min(pause * 1.5, _LONGEST_POLL)

    def unask(self, requests: Iterable[ClaimRequest]) -> None:
        """Interrupted before any work: hand back what may have been granted. If that fails, the lease is the bound."""
        changes = list(map(_handing_back, requests))
        try:
            self.store.release(changes)
        except StoreUnavailable:
            logger.info("Claims that were interrupted could not be handed back; their lease will run out")

    def finish(self, changes: list[Finish]) -> list[tuple[bool, Finish]]:
        """Whether each claim was ours, and what was stored in the end.

        Worth repeating: an effect that is not recorded may happen again. A value that the store will not take is
        recorded as done without it, for the same reason. And a caller who is cancelled meanwhile waits for it: it may be
        sent twice, so it needs no task of its own until then.
        """
        try:
            try:
                answers = self.store.finish(changes)
            except StoreUnavailable as exc:
                return self._finish_again(changes, exc)
        except CANCELLED:
            self.finish(changes)
            raise
        return list(zip(answers, changes, strict=True))

    def _finish_again(self, changes: list[Finish], error: StoreUnavailable) -> list[tuple[bool, Finish]]:
        if error.refused and len(changes) > 1:
            return [(self.finish([change]))[0] for change in changes]
        give_up = time.monotonic() + sum(_RETRIES)
        for pause in _RETRIES:
            if error.refused and changes[0].codec != NOT_REPLAYABLE:
                logger.warning(
                    "A result was refused by the store, and is recorded as not replayable: %s", error
                )
                changes = [replace(changes[0], codec=NOT_REPLAYABLE, result=b"")]
            elif time.monotonic() > give_up:
                raise error
            else:
                sleep(pause)
            try:
                answers = self.store.finish(changes)
            except StoreUnavailable as exc:
                error = exc
            else:
                return list(zip(answers, changes, strict=True))
        raise error

    def drop(self, key: bytes) -> None:
        if self.cache is not None:
            self.cache.drop(key)

    def learn(self, key: bytes, drops: int) -> None:
        """Keep a finished record in the cache. Its claim told the result, but not how long that will be good."""
        assert self.cache is not None
        asked = time.monotonic()
        try:
            [found] = self.store.get([key])
        except StoreUnavailable:
            return  # a replay has been answered; it will be asked for again
        if found is not None and found.record.state is State.DONE:
            record = found.record
            done = outcomes.Done(record.result, record.codec, record.attempt)
            until = asked + (record.expires_at - found.now) / 1_000
            self.cache.keep(key, record.fingerprint, done, until=until, drops=drops)

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

    def _hand_back_left_over(self) -> None:
        left_over, self._left_over = self._left_over, []
        try:
            self.store.release(left_over)
        except BaseException as exc:
            self._left_over += left_over
            if not isinstance(exc, StoreUnavailable):
                raise


def _handing_back(request: ClaimRequest) -> Release:
    return Release(request.key, request.token, request.terms.window)
