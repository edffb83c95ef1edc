# No twin: tasks queue behind a batch here, threads take turns to lead in the sync counterpart.
"""Turns concurrent calls of one verb into batches: while one batch is under way, the next one gathers.

A lone caller waits for nobody: it finds nothing under way and sends its own call as it is. Where the last batch had
several callers, the first of the next one lets the loop turn once, for the others are about to ask too.
"""

import asyncio
from collections import deque
from collections.abc import Awaitable, Callable, Coroutine, Sequence
from contextlib import suppress
from typing import Any, Generic, TypeVar

from dupeproof.errors import StoreUnavailable
from dupeproof.process_local_async import PerLoop
from dupeproof.stores.coalescer_batch import (
    LARGEST_BATCH,
    LARGEST_CALL,
    MOST_WAITING,
    Waiting,
    crowded,
    distribute,
    items_of,
    refuse,
)

T = TypeVar("T")
R = TypeVar("R")


class _Call(Waiting[T, R]):
    def __init__(self, items: Sequence[T]) -> None:
        super().__init__(items)
        self.left = False
        self._renew()

    def _renew(self) -> None:
        self._woken = asyncio.get_running_loop().create_future()

    def wake(self) -> None:
        if not self._woken.done():
            self._woken.set_result(None)

    async def wait(self, *, to_the_end: bool) -> None:
        try:
            await self._woken
        except asyncio.CancelledError:
            self.left = not self.sent
            while to_the_end and self.sent and not self.answered:
                self._renew()
                with suppress(asyncio.CancelledError):  # some cancel again and again until it has an effect
                    await self._woken
            raise


class AsyncCoalescer(Generic[T, R]):
    """For the tasks of each loop. With `to_the_end`, a cancelled caller leaves when its batch has been answered."""

    def __init__(
        self, send: Callable[[Sequence[T]], Awaitable[list[R]]], *, to_the_end: bool = False
    ) -> None:
        self._loops = PerLoop(lambda: _LoopCoalescer(send, to_the_end=to_the_end), lambda _: None)

    @property
    def waiting(self) -> int:
        """Calls of this loop that are not part of a batch yet."""
        return self._loops.get().waiting

    def __call__(self, items: Sequence[T]) -> Coroutine[Any, Any, list[R]]:
        return self._loops.get().send(items)


class _LoopCoalescer(Generic[T, R]):
    def __init__(
        self, send: Callable[[Sequence[T]], Awaitable[list[R]]], *, to_the_end: bool = False
    ) -> None:
        self._send = send
        self._to_the_end = to_the_end
        self._queue: deque[_Call[T, R]] = deque()
        self._under_way = False
        self._had_company = False
        self._drain: asyncio.Task[None] | None = None
        self._has_begun = False

    @property
    def waiting(self) -> int:
        return len(self._queue)

    async def send(self, items: Sequence[T]) -> list[R]:
        if len(items) > LARGEST_CALL:
            return await self._send(items)
        if not self._under_way and not self._had_company:
            self._under_way = True
            try:
                return await self._send(items)
            finally:
                self._under_way = False
                if self._queue:
                    self._start_drain()
        if len(self._queue) >= MOST_WAITING:
            raise crowded()
        call = _Call[T, R](items)
        self._queue.append(call)
        if not self._under_way:
            self._start_drain()
        await call.wait(to_the_end=self._to_the_end)
        return call.answer()

    def _start_drain(self) -> None:
        self._under_way, self._has_begun = True, False
        self._drain = asyncio.get_running_loop().create_task(self._send_all())
        self._drain.add_done_callback(self._never_began)

    def _never_began(self, task: "asyncio.Task[None]") -> None:
        """A task that is cancelled before its first step runs nothing of its own, and its callers would wait for ever."""
        if task is self._drain and not self._has_begun:
            self._under_way = False
            refuse(self._queue, asyncio.CancelledError())
            self._queue.clear()

    async def _send_all(self) -> None:
        self._has_begun = True
        try:
            await asyncio.sleep(0)
            while batch := self._next_batch():
                self._had_company = len(batch) > 1
                await self._carry(batch)
                await asyncio.sleep(0)  # who was answered may ask again at once, and should find us here
        except BaseException as exc:
            refuse(self._queue, exc)
            self._queue.clear()
            raise
        finally:
            self._under_way = False

    def _next_batch(self) -> list[_Call[T, R]]:
        batch: list[_Call[T, R]] = []
        size = 0
        while self._queue and (not batch or size + self._queue[0].weight <= LARGEST_BATCH):
            call = self._queue.popleft()
            if not call.left:
                call.sent = True
                batch.append(call)
                size += call.weight
        return batch

    async def _carry(self, batch: list[_Call[T, R]]) -> StoreUnavailable | None:
        """Send the batch and answer its callers. What came instead of an answer, if the store could not be reached."""
        try:
            distribute(batch, await self._send(items_of(batch)))
        except StoreUnavailable as exc:
            if exc.refused and len(batch) > 1:
                await self._carry_each(batch)
            else:
                refuse(batch, exc)
                return None if exc.refused else exc
        except Exception as exc:  # noqa: BLE001 - it belongs to the callers, who raise it
            refuse(batch, exc)
        except BaseException as exc:
            refuse(batch, exc)
            raise
        return None

    async def _carry_each(self, batch: list[_Call[T, R]]) -> None:
        """The store took offence at one of them and did nothing: let each have an answer of its own.

        If it cannot be reached any more, they all get that error: waiting for that once each would take for ever.
        """
        left = deque(batch)
        try:
            while left:
                if (down := await self._carry([left.popleft()])) is not None:
                    refuse(left, down)
                    return
        except BaseException as exc:
            refuse(left, exc)
            raise
