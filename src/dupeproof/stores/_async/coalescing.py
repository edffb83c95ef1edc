"""A store whose concurrent calls leave as batches: for stores where a commit or a round trip is the price.

Each verb has a lane of its own. A task claims before it finishes and waits for the answer in between, so what happens
to one key keeps its order; calls that are not waited for have none, with or without lanes.
"""

from collections.abc import Sequence

from dupeproof.core.outcomes import Outcome
from dupeproof.core.records import ClaimRequest, Fail, Finish, Mark, Renew
from dupeproof.stores._async.coalescer import AsyncCoalescer
from dupeproof.stores._async.runtime import PerHome
from dupeproof.stores._async.wrapping import AsyncMarkingStore, AsyncWrapper


class _Lanes:
    def __init__(self, store: AsyncMarkingStore) -> None:
        # A claim that is cancelled is handed back by its caller: not before it was granted.
        self.claim = AsyncCoalescer[ClaimRequest, Outcome](store.claim, to_the_end=True)
        self.finish = AsyncCoalescer[Finish, bool](store.finish)
        self.fail = AsyncCoalescer[Fail, bool](store.fail)
        self.renew = AsyncCoalescer[Renew, bool](store.renew)
        self.mark = AsyncCoalescer[Mark, bool](store.mark)


class AsyncCoalescingStore(AsyncWrapper):
    def __init__(self, store: AsyncMarkingStore) -> None:
        super().__init__(store)
        self._lanes = PerHome(lambda: _Lanes(store), lambda _: None)

    async def claim(self, requests: Sequence[ClaimRequest]) -> list[Outcome]:
        return await self._lanes.get().claim(requests)

    async def finish(self, changes: Sequence[Finish]) -> list[bool]:
        return await self._lanes.get().finish(changes)

    async def fail(self, changes: Sequence[Fail]) -> list[bool]:
        return await self._lanes.get().fail(changes)

    async def renew(self, changes: Sequence[Renew]) -> list[bool]:
        return await self._lanes.get().renew(changes)

    async def mark(self, marks: Sequence[Mark]) -> list[bool]:
        return await self._lanes.get().mark(marks)
