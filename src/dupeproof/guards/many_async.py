"""A function over many items, each under a key of its own: claimed in one go, run one by one, finished in one go."""

import time
from collections import deque
from collections.abc import Awaitable, Callable, Iterable, Sequence
from typing import Any, TypeVar

from dupeproof.core import outcomes
from dupeproof.core.crashes import Crashed, armed, reached
from dupeproof.errors import ClaimLost, StoreUnavailable
from dupeproof.guards.claims_async import AsyncClaim, AsyncClaims
from dupeproof.guards.results import Result
from dupeproof.guards.runtime_async import awaited
from dupeproof.guards.steps import current

T = TypeVar("T")
R = TypeVar("R")
_LONGEST_UNRECORDED = 1.0
"""Seconds for which a result may wait for the others of its batch: a crash repeats what is not recorded."""


async def attempt_many(
    made_by: AsyncClaims,
    keys: Sequence[str],
    returns: Any,
    fingerprints: Sequence[bytes],
    fn: Callable[[T], Awaitable[R]],
    items: Sequence[T],
) -> list[Result[R]]:
    """A result for each item, in order."""
    claims = [
        AsyncClaim(made_by, key, returns, compared) for key, compared in zip(keys, fingerprints, strict=True)
    ]
    batch = _AsyncBatch(made_by, claims)
    await batch.run(fn, items)
    for place in batch.again:
        claim = AsyncClaim(made_by, keys[place], returns, fingerprints[place])
        try:
            value = await claim.run(fn, (items[place],), {})
        except Exception as exc:  # noqa: BLE001 - it belongs to this item; the others go on
            batch.results[place] = _failure(exc, 0)
        else:
            batch.results[place] = Result(value, replayed=claim.done, attempt=claim.attempt)
    return [batch.results[place] for place in range(len(items))]


class _AsyncBatch:
    """The claims of a batch, and the result of each by its place; `again` are the places still to be asked for.

    Those were busy: with one of this very batch that has the same key, or with somebody the guard's policy waits for.
    """

    def __init__(self, made_by: AsyncClaims, claims: Sequence[AsyncClaim]) -> None:
        self._engine = made_by.engine
        self._policy = made_by.policy
        self._claims = claims
        self._unrecorded: dict[int, Any] = {}
        self.results: dict[int, Result[Any]] = {}
        self.again: list[int] = []

    async def run(self, fn: Callable[[T], Awaitable[R]], items: Sequence[T]) -> None:
        for claim, item in zip(self._claims, items, strict=True):
            claim.call = (item,), {}
        await self._acquire()
        waiting = deque(place for place, claim in enumerate(self._claims) if claim.won)
        recorded = time.monotonic()
        try:
            if armed and waiting:
                reached("after-claim")
            while waiting:
                await self._engine.heartbeat.catch_up()
                place = waiting.popleft()
                if self._claims[place].lost:
                    self.again.append(place)  # to somebody else, before it was begun
                    continue
                await self._run_one(place, fn, items[place])
                if armed:
                    reached("after-effect")
                if time.monotonic() - recorded > _LONGEST_UNRECORDED:
                    await self._record()
                    recorded = time.monotonic()
        except Crashed:
            for claim in self._claims:
                claim.shut()  # the dead record nothing
            raise
        except BaseException:
            # Interrupted. What has run is recorded, and what has not is handed back.
            try:
                await self._record()
            finally:
                await self._hand_back(waiting)
            raise
        await self._record()

    async def _acquire(self) -> None:
        requests = [claim.request for claim in self._claims]
        try:
            answers = await self._engine.ask(requests)
        except StoreUnavailable as exc:
            for claim in self._claims:
                claim.go_unguarded(exc)
            return
        pairs = list(zip(requests, answers, strict=True))
        ours = {request.key for request, answer in pairs if type(answer) is outcomes.Won}
        accepted = 0
        taken: set[bytes] = set()
        try:
            for place, (request, answer) in enumerate(pairs):
                accepted = place
                if (
                    type(answer) is outcomes.Busy and (self._policy.wait or request.key in ours)
                ) or request.key in taken:
                    self.again.append(place)
                else:
                    await self._accept(place, answer)
                    if self._claims[place].won:
                        taken.add(request.key)
        except BaseException:
            # Interrupted, and nothing has run. What a lookup left held is not ours any more.
            await self._hand_back(
                place
                for place, answer in enumerate(answers)
                if self._claims[place].is_open or (type(answer) is outcomes.Won and place > accepted)
            )
            raise

    async def _accept(self, place: int, answer: outcomes.Outcome) -> None:
        claim = self._claims[place]
        try:
            await claim.accept(answer)
            if claim.done:
                self.results[place] = Result(claim.result, replayed=True, attempt=claim.attempt)
        except Exception as exc:  # noqa: BLE001 - also that of a codec; it belongs to this item, the others go on
            self.results[place] = _failure(exc, claim.attempt)

    async def _hand_back(self, places: Iterable[int]) -> None:
        granted = [claim for claim in (self._claims[place] for place in places) if claim.guarded]
        if granted:
            await self._engine.unask([claim.give_up() for claim in granted])

    async def _run_one(self, place: int, fn: Callable[[T], Awaitable[R]], item: T) -> None:
        claim = self._claims[place]
        try:
            outer = current.set(claim)
            try:
                self._unrecorded[place] = await awaited(fn(item))
            finally:
                current.reset(outer)
        except BaseException as exc:
            if claim.is_open:
                await claim.leave(exc)
            if not isinstance(exc, Exception):
                raise
            self.results[place] = _failure(exc, claim.attempt)

    async def _record(self) -> None:
        values, self._unrecorded = self._unrecorded, {}
        for place, value in values.items():
            self.results[place] = Result(value, replayed=False, attempt=self._claims[place].attempt)
        claims = {place: self._claims[place] for place in values if self._claims[place].guarded}
        changes = [claim.closing(values[place]) for place, claim in claims.items()]
        if not changes:
            return
        try:
            answers = await self._engine.finish(changes, self._policy.terms.lease)
        except StoreUnavailable as exc:
            for place, claim in claims.items():
                if claim.not_recorded():
                    self.results[place] = _failure(exc, claim.attempt)
            return
        finally:
            for claim in claims.values():
                claim.shut()
        if armed:
            reached("after-finish")
        for (place, claim), (ours, stored) in zip(claims.items(), answers, strict=True):
            try:
                claim.closed(ours, stored)
            except ClaimLost as exc:
                self.results[place] = _failure(exc, claim.attempt)


def _failure(error: Exception, attempt: int) -> Result[Any]:
    return Result(None, replayed=False, attempt=attempt, error=error)
