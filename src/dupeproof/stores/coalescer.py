# No twin: threads take turns to lead here, tasks queue behind a batch in the async counterpart.
"""Turns concurrent calls of one verb into batches: while one batch is under way, the next one gathers.

A lone caller finds nothing under way and sends its own call as it is. Those who come meanwhile queue; when the answer
is there, the first of them sends for all. So there is no thread in between, and nobody waits for a timer.
"""

import threading
from collections import deque
from collections.abc import Callable, Sequence
from typing import Generic, TypeVar

from dupeproof import forks
from dupeproof.errors import StoreUnavailable
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


_LONGEST_SLEEP = 300.0
"""A leader always comes back much sooner; past this one that vanished is replaced."""


class _Call(Waiting[T, R]):
    def __init__(self, items: Sequence[T]) -> None:
        super().__init__(items)
        self.leads = False
        self._asleep = threading.Lock()
        self._asleep.acquire()

    def wake(self) -> None:
        if self._asleep.locked():
            self._asleep.release()

    def wait(self) -> None:
        """Until the answer is there, or it is this call's turn to send for those in the queue."""
        self._asleep.acquire(timeout=_LONGEST_SLEEP)


class Coalescer(Generic[T, R]):
    """For the threads of a process. With `to_the_end`, an interrupted caller leaves when its batch was answered."""

    def __init__(self, send: Callable[[Sequence[T]], list[R]], *, to_the_end: bool = False) -> None:
        self._send = send
        self._to_the_end = to_the_end
        self.after_fork()
        forks.reset_in_children(self)

    def after_fork(self) -> None:
        self._lock = threading.Lock()
        self._queue: deque[_Call[T, R]] = deque()
        self._under_way = False

    @property
    def waiting(self) -> int:
        """Calls that are not part of a batch yet."""
        return len(self._queue)

    def __call__(self, items: Sequence[T]) -> list[R]:
        if not forks.page[0]:
            forks.look()
        if len(items) > LARGEST_CALL:
            return self._send(items)
        call: _Call[T, R] | None = None
        leading = False
        try:
            with self._lock:
                if not self._under_way:
                    leading = self._under_way = True
                elif len(self._queue) < MOST_WAITING:
                    call = _Call(items)
                    self._queue.append(call)
                else:
                    raise crowded()
            return self._send(items) if call is None else self._in_company(call)
        finally:
            if leading:
                with self._lock:
                    self._under_way = False
                    if self._queue:
                        self._pass_on()

    def _in_company(self, call: _Call[T, R]) -> list[R]:
        try:
            call.wait()
        except BaseException:
            self._leave(call)
            raise
        if not call.answered:
            try:
                self._carry(self._next_batch())
            finally:
                with self._lock:
                    self._pass_on()
        return call.answer()

    def _pass_on(self) -> None:
        """Let the first in the queue send for all. To be called under the lock."""
        self._under_way = bool(self._queue)
        if self._queue:
            self._queue[0].leads = True
            self._queue[0].wake()

    def _leave(self, call: _Call[T, R]) -> None:
        """An interrupted caller takes back what was not sent, and hands on its turn if it just got it."""
        with self._lock:
            if not call.sent:
                self._queue.remove(call)
        if call.leads and not call.sent:
            with self._lock:
                self._pass_on()
        elif call.sent and not call.answered and self._to_the_end:
            call.wait()

    def _next_batch(self) -> list[_Call[T, R]]:
        batch: list[_Call[T, R]] = []
        size = 0
        with self._lock:
            while self._queue and (not batch or size + self._queue[0].weight <= LARGEST_BATCH):
                call = self._queue.popleft()
                call.sent = True
                batch.append(call)
                size += call.weight
        return batch

    def _carry(self, batch: list[_Call[T, R]]) -> StoreUnavailable | None:
        """Send the batch and answer its callers. What came instead of an answer, if the store could not be reached."""
        try:
            distribute(batch, self._send(items_of(batch)))
        except StoreUnavailable as exc:
            if exc.refused and len(batch) > 1:
                self._carry_each(batch)
            else:
                refuse(batch, exc)
                return None if exc.refused else exc
        except Exception as exc:  # noqa: BLE001 - it belongs to the callers, who raise it
            refuse(batch, exc)
        except BaseException as exc:
            refuse(batch, exc)
            raise
        return None

    def _carry_each(self, batch: list[_Call[T, R]]) -> None:
        """The store took offence at one of them and did nothing: let each have an answer of its own.

        If it cannot be reached any more, they all get that error: waiting for that once each would take for ever.
        """
        left = deque(batch)
        try:
            while left:
                if (down := self._carry([left.popleft()])) is not None:
                    refuse(left, down)
                    return
        except BaseException as exc:
            refuse(left, exc)
            raise
