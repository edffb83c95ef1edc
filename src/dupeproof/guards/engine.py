# Written by tools/twins.py from src/dupeproof/guards/engine_async.py; change that file instead.
"""What all claims of one guard share, and the patience with which they speak to the store."""

import time
from collections.abc import Callable, Iterable
from itertools import chain, repeat

from msgspec.structs import replace

from dupeproof.core import outcomes
from dupeproof.core.events import Listener, logger
from dupeproof.core.protocols import Store, Waitable
from dupeproof.core.records import NOT_REPLAYABLE, ClaimRequest, Fail, Finish, Release
from dupeproof.core.states import State
from dupeproof.errors import StoreUnavailable
from dupeproof.guards.cache import FinishedCache
from dupeproof.guards.heartbeat import Heartbeat
from dupeproof.guards.results import DeadCall
from dupeproof.guards.runtime import CANCELLED, UNANSWERED, Afterwards, sleep

_FIRST_POLL = 0.005
_LONGEST_POLL = 0.25
_RETRIES = (0.05, 0.2, 0.75)
_LONGEST_PAUSE = 1.0


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
        self._afterwards = Afterwards(self._report)

    def ask(self, requests: list[ClaimRequest]) -> list[outcomes.Outcome]:
        try:
            return self.store.claim(requests)
        except BaseException as exc:
            self.unanswered(requests, exc)
            raise

    def unanswered(self, requests: list[ClaimRequest], error: BaseException) -> None:
        """The claims may have been granted all the same, and only the answer be lost: nobody will work on them."""
        if isinstance(error, StoreUnavailable):
            self._afterwards.add(map(handing_back, requests))
        elif not isinstance(error, Exception):
            self.unask(requests)

    def ask_patiently(self, request: ClaimRequest, patience: float) -> outcomes.Outcome:
        """Ask again for that many seconds, until the key is not busy any more."""
        deadline = time.monotonic() + patience
        pause = _FIRST_POLL
        while True:
            [outcome] = self.ask([request])
            left = deadline - time.monotonic()
            if type(outcome) is not outcomes.Busy or left <= 0:
                return outcome
            until_over = max(outcome.lease_left / 1_000, _FIRST_POLL)
            if self._waitable is not None:
                self._waitable.wait(request.key, min(left, until_over))
            else:
                sleep(min(left, until_over, pause))
                pause = min(pause * 1.5, _LONGEST_POLL)

    def unask(self, requests: Iterable[ClaimRequest]) -> None:
        """Before any work: hand back what may have been granted, now or when the store answers again."""
        self.release(list(map(handing_back, requests)))

    def release(self, changes: list[Release]) -> list[bool]:
        """False for those that were no longer ours, as far as the store knows now."""
        return self._release(changes)

    def _release(self, changes: list[Release]) -> list[bool]:
        try:
            return self.store.release(changes)
        except StoreUnavailable:
            self._afterwards.add(changes)
            return [True] * len(changes)

    def finish(self, changes: list[Finish], lease: int) -> list[tuple[bool, Finish]]:
        """Whether each claim was ours, and what was stored in the end."""
        give_up = time.monotonic() + lease / 1_000
        try:
            answers = self.store.finish(changes)
        except UNANSWERED as exc:
            return self.finish_again(changes, exc, give_up)
        return list(zip(answers, changes, strict=True))

    def finish_again(
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
            return self._finish_until(changes, error, give_up)
        except CANCELLED:
            left = max(0, int((give_up - time.monotonic()) * 1_000))
            try:
                self.finish(changes, left)
            except StoreUnavailable as exc:
                # Whoever cancelled must not get another error, or find the call going on.
                logger.warning("Work of a call that was cancelled is done and not recorded: %s", exc)
            raise

    def _finish_until(
        self, changes: list[Finish], error: StoreUnavailable, give_up: float
    ) -> list[tuple[bool, Finish]]:
        if error.refused and len(changes) > 1:
            left = max(0, int((give_up - time.monotonic()) * 1_000))
            return [(self.finish([change], left))[0] for change in changes]
        for pause in chain(_RETRIES, repeat(_LONGEST_PAUSE)):
            if error.refused and changes[0].codec != NOT_REPLAYABLE:
                logger.warning(
                    "A result was refused by the store, and is recorded as not replayable: %s", error
                )
                changes = [replace(changes[0], codec=NOT_REPLAYABLE, result=b"")]
            elif time.monotonic() >= give_up:
                break
            else:
                sleep(min(pause, give_up - time.monotonic()))
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
        """Keep a finished record in the cache. Its claim has the result, but not how long that will be good."""
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
        """Worth repeating where it is the last attempt, which only the one who made it can report to the hook.

        The others are sent when the store answers again, if need be after the call has raised the error of its work.
        """
        for pause in _RETRIES if change.dead else ():
            try:
                [ours] = self.store.fail([change])
            except StoreUnavailable:
                sleep(pause)
            else:
                return ours
        try:
            [ours] = self.store.fail([change])
        except StoreUnavailable:
            self._afterwards.add([change])
            raise
        return ours

    def stop(self) -> None:
        """Renew no more, when the claims that are open have come to their end, and send the store nothing more."""
        self.heartbeat.stop()
        self._afterwards.stop()

    def _report(self, changes: list[Release | Fail]) -> None:
        releases = [change for change in changes if isinstance(change, Release)]
        fails = [change for change in changes if isinstance(change, Fail)]
        if releases:
            self.store.release(releases)
        if fails:
            self.store.fail(fails)


def handing_back(request: ClaimRequest) -> Release:
    return Release(request.key, request.token, request.terms.window)
