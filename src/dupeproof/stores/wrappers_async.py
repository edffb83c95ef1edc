"""Stores around another store: one whose calls are timed, one whose concurrent calls leave as batches."""

import time
from collections.abc import Sequence
from typing import Any, Protocol

from dupeproof.core.events import Event, Kind, Listener, publish
from dupeproof.core.outcomes import Outcome
from dupeproof.core.protocols import AsyncSeenSet, AsyncStore
from dupeproof.core.records import (
    ClaimRequest,
    Fail,
    Finish,
    Found,
    FoundMark,
    Health,
    Mark,
    Release,
    Renew,
    Stats,
)
from dupeproof.stores.coalescer_async import AsyncCoalescer


class AsyncMarkingStore(AsyncStore, AsyncSeenSet, Protocol):
    """What can be wrapped: records and marks."""


class AsyncWrapper:
    """Hands on the verbs that its kinds leave alone."""

    def __init__(self, store: AsyncMarkingStore) -> None:
        self._store = self.wrapped = store

    async def release(self, changes: Sequence[Release]) -> list[bool]:
        return await self._store.release(changes)

    async def get(self, keys: Sequence[bytes]) -> list[Found | None]:
        return await self._store.get(keys)

    async def forget(self, keys: Sequence[bytes]) -> list[bool]:
        return await self._store.forget(keys)

    async def unmark(self, marks: Sequence[Mark]) -> list[bool]:
        return await self._store.unmark(marks)

    async def marks(self, keys: Sequence[bytes]) -> list[FoundMark | None]:
        return await self._store.marks(keys)

    async def purge(self, limit: int) -> int:
        return await self._store.purge(limit)

    async def stats(self) -> Stats:
        return await self._store.stats()

    async def check(self) -> Health:
        return await self._store.check()

    async def close(self) -> None:
        await self._store.close()


class AsyncObservedStore(AsyncWrapper):
    """Stands below the coalescer, so the events show what was sent."""

    def __init__(self, store: AsyncMarkingStore, listeners: Sequence[Listener]) -> None:
        super().__init__(store)
        self._listeners = listeners

    async def claim(self, requests: Sequence[ClaimRequest]) -> list[Outcome]:
        outcomes: list[Outcome] = await self._timed("claim", self._store.claim, requests)
        return outcomes

    async def finish(self, changes: Sequence[Finish]) -> list[bool]:
        answers: list[bool] = await self._timed("finish", self._store.finish, changes)
        return answers

    async def fail(self, changes: Sequence[Fail]) -> list[bool]:
        answers: list[bool] = await self._timed("fail", self._store.fail, changes)
        return answers

    async def renew(self, changes: Sequence[Renew]) -> list[bool]:
        answers: list[bool] = await self._timed("renew", self._store.renew, changes)
        return answers

    async def mark(self, marks: Sequence[Mark]) -> list[bool]:
        answers: list[bool] = await self._timed("mark", self._store.mark, marks)
        return answers

    async def _timed(self, verb: str, call: Any, items: Sequence[Any]) -> Any:
        began = time.perf_counter()
        try:
            return await call(items)
        finally:
            took = time.perf_counter() - began
            event = Event(kind=Kind.STORE_CALL, namespace="", name=verb, count=len(items), seconds=took)
            publish(self._listeners, event)


class AsyncCoalescingStore(AsyncWrapper):
    """Its five frequent verbs are coalescers, which send what comes together as one batch."""

    def __init__(self, store: AsyncMarkingStore) -> None:
        super().__init__(store)
        # A claim that is cancelled is handed back by its caller: not before it was granted.
        self.claim = AsyncCoalescer[ClaimRequest, Outcome](store.claim, to_the_end=True)
        self.finish = AsyncCoalescer[Finish, bool](store.finish)
        self.fail = AsyncCoalescer[Fail, bool](store.fail)
        self.renew = AsyncCoalescer[Renew, bool](store.renew)
        self.mark = AsyncCoalescer[Mark, bool](store.mark)
