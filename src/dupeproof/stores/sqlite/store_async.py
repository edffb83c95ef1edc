# No twin: one file serves both, and tasks are written for it by hand.
"""SQLite for tasks: one worker thread does the file I/O, so the event loop never waits for a disk."""

import asyncio
import os
import time
from collections.abc import AsyncIterator, Callable, Sequence
from concurrent.futures import ThreadPoolExecutor
from typing import ParamSpec, TypeVar

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
from dupeproof.errors import StoreUnavailable
from dupeproof.stores.sqlite.store import SQLiteStore

P = ParamSpec("P")
R = TypeVar("R")


class AsyncSQLiteStore:
    """Every verb runs whole in the worker thread: a cancelled caller stops waiting, the transaction does not stop."""

    def __init__(self, store: SQLiteStore) -> None:
        self._store = store
        self._worker: ThreadPoolExecutor | None = None
        self._pid = os.getpid()

    async def _run(self, verb: Callable[P, R], *args: P.args, **kwargs: P.kwargs) -> R:
        asked = time.monotonic()

        def in_turn() -> R:
            # A long queue behind a lock that somebody else holds must not wait for it once per caller.
            if time.monotonic() - asked > self._store.timeout:
                raise StoreUnavailable(
                    f"{self._store.path}: other tasks kept the database for {self._store.timeout:g} s"
                )
            return verb(*args, **kwargs)

        if self._worker is None or self._pid != os.getpid():
            self._pid = os.getpid()
            self._worker = ThreadPoolExecutor(1, thread_name_prefix="dupeproof-sqlite")
        return await asyncio.get_running_loop().run_in_executor(self._worker, in_turn)

    async def claim(self, requests: Sequence[ClaimRequest]) -> list[Outcome]:
        return await self._run(self._store.claim, requests)

    async def finish(self, changes: Sequence[Finish]) -> list[bool]:
        return await self._run(self._store.finish, changes)

    async def fail(self, changes: Sequence[Fail]) -> list[bool]:
        return await self._run(self._store.fail, changes)

    async def release(self, changes: Sequence[Release]) -> list[bool]:
        return await self._run(self._store.release, changes)

    async def renew(self, changes: Sequence[Renew]) -> list[bool]:
        return await self._run(self._store.renew, changes)

    async def get(self, keys: Sequence[bytes]) -> list[Found | None]:
        return await self._run(self._store.get, keys)

    async def waiting(self, limit: int) -> list[Listed]:
        return await self._run(self._store.waiting, limit)

    async def find(self, digits: str, limit: int) -> list[bytes]:
        return await self._run(self._store.find, digits, limit)

    async def sample(self, limit: int) -> Sample:
        return await self._run(self._store.sample, limit)

    async def records(self) -> AsyncIterator[list[Listed]]:
        pages = self._store.records()
        while (
            page := await self._run(next, pages, None)
        ) is not None:  # one may be empty: all of it has expired
            yield page

    async def forget(self, keys: Sequence[bytes]) -> list[bool]:
        return await self._run(self._store.forget, keys)

    async def mark(self, marks: Sequence[Mark]) -> list[bool]:
        return await self._run(self._store.mark, marks)

    async def unmark(self, marks: Sequence[Mark]) -> list[bool]:
        return await self._run(self._store.unmark, marks)

    async def marks(self, keys: Sequence[bytes]) -> list[FoundMark | None]:
        return await self._run(self._store.marks, keys)

    async def advance(self, numbers: Sequence[Number]) -> list[Verdict]:
        return await self._run(self._store.advance, numbers)

    async def retire(self, keys: Sequence[bytes]) -> list[bool]:
        return await self._run(self._store.retire, keys)

    async def sequences(self) -> SequenceStats:
        return await self._run(self._store.sequences)

    async def purge(self, limit: int) -> int:
        return await self._run(self._store.purge, limit)

    async def stats(self) -> Stats:
        return await self._run(self._store.stats)

    async def check(self) -> Health:
        return await self._run(self._store.check)

    def schema(self) -> str:
        return self._store.schema()

    async def close(self) -> None:
        worker, self._worker = self._worker, None
        if worker is not None and self._pid == os.getpid():
            await asyncio.get_running_loop().run_in_executor(worker, self._store.close)
            worker.shutdown(wait=False)
