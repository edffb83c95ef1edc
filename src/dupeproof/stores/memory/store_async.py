# No twin: one file serves both, and tasks are written for it by hand.
"""The memory store for tasks."""

import asyncio
from collections.abc import AsyncIterator, Sequence

from dupeproof.core.outcomes import Outcome
from dupeproof.core.records import (
    ClaimRequest,
    Fail,
    Finish,
    Found,
    FoundMark,
    Health,
    Listed,
    Mark,
    Release,
    Renew,
    Sample,
    Stats,
)
from dupeproof.core.sequences import Number, SequenceStats, Verdict
from dupeproof.stores.memory.copies import AsyncMemoryCopies
from dupeproof.stores.memory.store import MemoryStore


class AsyncMemoryStore:
    """The same dicts for tasks: no verb waits for anything, so none needs more than the lock."""

    def __init__(self, memory: MemoryStore | None = None) -> None:
        self._memory = MemoryStore() if memory is None else memory

    async def claim(self, requests: Sequence[ClaimRequest]) -> list[Outcome]:
        return self._memory.claim(requests)

    async def finish(self, changes: Sequence[Finish]) -> list[bool]:
        return self._memory.finish(changes)

    async def fail(self, changes: Sequence[Fail]) -> list[bool]:
        return self._memory.fail(changes)

    async def release(self, changes: Sequence[Release]) -> list[bool]:
        return self._memory.release(changes)

    async def renew(self, changes: Sequence[Renew]) -> list[bool]:
        return self._memory.renew(changes)

    async def get(self, keys: Sequence[bytes]) -> list[Found | None]:
        return self._memory.get(keys)

    async def waiting(self, limit: int) -> list[Listed]:
        return self._memory.waiting(limit)

    async def find(self, digits: str, limit: int) -> list[bytes]:
        return self._memory.find(digits, limit)

    async def sample(self, limit: int) -> Sample:
        return self._memory.sample(limit)

    async def records(self) -> AsyncIterator[list[Listed]]:
        for page in self._memory.records():
            yield page

    async def forget(self, keys: Sequence[bytes]) -> list[bool]:
        return self._memory.forget(keys)

    async def mark(self, marks: Sequence[Mark]) -> list[bool]:
        return self._memory.mark(marks)

    async def unmark(self, marks: Sequence[Mark]) -> list[bool]:
        return self._memory.unmark(marks)

    async def marks(self, keys: Sequence[bytes]) -> list[FoundMark | None]:
        return self._memory.marks(keys)

    async def advance(self, numbers: Sequence[Number]) -> list[Verdict]:
        return self._memory.advance(numbers)

    async def retire(self, keys: Sequence[bytes]) -> list[bool]:
        return self._memory.retire(keys)

    async def sequences(self) -> SequenceStats:
        return self._memory.sequences()

    def copies(self) -> AsyncMemoryCopies:
        return AsyncMemoryCopies(self._memory.copies())

    async def purge(self, limit: int) -> int:
        return self._memory.purge(limit)

    async def stats(self) -> Stats:
        return self._memory.stats()

    async def check(self) -> Health:
        return self._memory.check()

    async def close(self) -> None:
        self._memory.close()

    async def wait(self, key: bytes, seconds: float) -> None:
        loop = asyncio.get_running_loop()
        changed = asyncio.Event()

        def wake() -> None:
            if not loop.is_closed():
                loop.call_soon_threadsafe(changed.set)

        if self._memory.watch(key, wake):
            try:
                async with asyncio.timeout(seconds):
                    await changed.wait()
            except TimeoutError:
                return
            finally:
                self._memory.unwatch(key, wake)
