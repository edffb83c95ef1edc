"""A store whose calls are timed and told to those who want to know: how long each batch took, and how large it was."""

import time
from collections.abc import Sequence
from typing import Any

from dupeproof.core.events import Event, Kind, Listener, publish
from dupeproof.core.outcomes import Outcome
from dupeproof.core.records import ClaimRequest, Fail, Finish, Mark, Renew
from dupeproof.stores._async.wrapping import AsyncMarkingStore, AsyncWrapper


class AsyncObservedStore(AsyncWrapper):
    """Stands below the coalescer, so what is told is what was sent."""

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
