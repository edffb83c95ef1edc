"""A store around another one: every verb is handed on, until a subclass says otherwise."""

from collections.abc import Sequence
from typing import Protocol

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


class AsyncMarkingStore(AsyncStore, AsyncSeenSet, Protocol):
    """What can be wrapped: records and marks."""


class AsyncWrapper:
    def __init__(self, store: AsyncMarkingStore) -> None:
        self._store = self.wrapped = store

    async def claim(self, requests: Sequence[ClaimRequest]) -> list[Outcome]:
        return await self._store.claim(requests)

    async def finish(self, changes: Sequence[Finish]) -> list[bool]:
        return await self._store.finish(changes)

    async def fail(self, changes: Sequence[Fail]) -> list[bool]:
        return await self._store.fail(changes)

    async def renew(self, changes: Sequence[Renew]) -> list[bool]:
        return await self._store.renew(changes)

    async def mark(self, marks: Sequence[Mark]) -> list[bool]:
        return await self._store.mark(marks)

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
