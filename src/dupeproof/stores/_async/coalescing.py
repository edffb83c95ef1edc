"""A store whose concurrent calls leave as batches: for stores where a commit or a round trip is the price.

Each verb has a lane of its own. A task claims before it finishes and waits for the answer in between, so what happens
to one key keeps its order; calls that are not waited for have none, with or without lanes.
"""

from collections.abc import Sequence
from typing import Any, Protocol

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
from dupeproof.stores._async.coalescer import AsyncCoalescer
from dupeproof.stores._async.runtime import PerHome


class AsyncMarkingStore(AsyncStore, AsyncSeenSet, Protocol):
    """What can be coalesced: records and marks."""


class _Lanes:
    def __init__(self, store: AsyncMarkingStore) -> None:
        # A claim that is cancelled is handed back by its caller: not before it was granted.
        self.claim = AsyncCoalescer[ClaimRequest, Outcome](store.claim, to_the_end=True)
        self.finish = AsyncCoalescer[Finish, bool](store.finish)
        self.fail = AsyncCoalescer[Fail, bool](store.fail)
        self.renew = AsyncCoalescer[Renew, bool](store.renew)
        self.mark = AsyncCoalescer[Mark, bool](store.mark)


class AsyncCoalescingStore:
    def __init__(self, store: AsyncMarkingStore) -> None:
        self._store = store
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

    def __getattr__(self, name: str) -> Any:
        """Abilities of the store's own, such as its schema."""
        return getattr(self._store, name)
