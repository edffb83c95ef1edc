"""A source for tasks, whose work a thread of its own does: the event loop never waits for a disk or a driver."""

import asyncio
from collections.abc import Callable, Sequence
from concurrent.futures import ThreadPoolExecutor
from typing import ParamSpec, TypeVar

from dupeproof.outbox.messages import Message
from dupeproof.outbox.relay_steps import StepwiseSource
from dupeproof.outbox.reports import DeadMessage, Delivered, OutboxStatus

P = ParamSpec("P")
R = TypeVar("R")


class ThreadedSource:
    def __init__(self, source: StepwiseSource) -> None:
        self._source = source
        self._worker: ThreadPoolExecutor | None = None

    async def _run(self, verb: Callable[P, R], *args: P.args, **kwargs: P.kwargs) -> R:
        if self._worker is None:
            self._worker = ThreadPoolExecutor(1, thread_name_prefix="dupeproof-outbox")
        return await asyncio.get_running_loop().run_in_executor(self._worker, lambda: verb(*args, **kwargs))

    async def take(self, token: bytes, lease: int, shards: int, most: int) -> list[Message]:
        return await self._run(self._source.take, token, lease, shards, most)

    async def record(self, delivered: Delivered) -> int:
        return await self._run(self._source.record, delivered)

    async def status(self) -> OutboxStatus:
        return await self._run(self._source.status)

    async def dead(self, limit: int) -> list[DeadMessage]:
        return await self._run(self._source.dead, limit)

    async def retry(self, ids: Sequence[str] | None) -> list[str]:
        return await self._run(self._source.retry, ids)

    async def drop(self, ids: Sequence[str] | None) -> list[str]:
        return await self._run(self._source.drop, ids)

    async def purge(self, limit: int) -> int:
        return await self._run(self._source.purge, limit)

    async def tidy(self) -> None:
        await self._run(self._source.tidy)

    async def wake_socket(self) -> int | None:
        return self._source.wake_socket()

    def woken(self) -> None:
        self._source.woken()

    async def close(self) -> None:
        worker, self._worker = self._worker, None
        if worker is not None:
            await asyncio.get_running_loop().run_in_executor(worker, self._source.close)
            worker.shutdown(wait=False)
