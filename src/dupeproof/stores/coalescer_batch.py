"""What both coalescers share: the limits, and a call that waits for its part of a batch's answer."""

import copy
from abc import ABC, abstractmethod
from collections.abc import Sequence
from typing import Generic, TypeVar

from dupeproof.errors import StoreUnavailable

LARGEST_BATCH = 1_000
_HEAVY = 8_192
"""Bytes of a result that count as one more item: a batch of large ones is cut before it fills the memory."""
LARGEST_CALL = 100
"""A call of more items is a batch already and goes by itself."""
MOST_WAITING = 10_000

T = TypeVar("T")
R = TypeVar("R")


class Waiting(ABC, Generic[T, R]):
    """One caller's items on their way. `sent` from when they are part of a batch."""

    def __init__(self, items: Sequence[T]) -> None:
        self.items = items
        self.weight = sum([1 + len(getattr(item, "result", b"")) // _HEAVY for item in items])
        self.sent = False
        self.answered = False
        self._answers: list[R] | None = None
        self._error: BaseException | None = None

    def succeed(self, answers: list[R]) -> None:
        self._answers = answers
        self.answered = True
        self.wake()

    def fail(self, error: BaseException) -> None:
        self._error = error
        self.answered = True
        self.wake()

    def answer(self) -> list[R]:
        if self._error is not None:
            try:
                raise self._error
            finally:
                self._error = None  # a traceback that leads back to this call would keep both alive
        if self._answers is None:
            raise StoreUnavailable("the call that carried this one vanished; what became of it is unknown")
        return self._answers

    @abstractmethod
    def wake(self) -> None: ...


def distribute(batch: Sequence[Waiting[T, R]], answers: list[R]) -> None:
    start = 0
    for call in batch:
        end = start + len(call.items)
        call.succeed(answers[start:end])
        start = end


def refuse(batch: Sequence[Waiting[T, R]], error: BaseException) -> None:
    """Fail every call with an error of its own: two threads must not raise, and so change, the same one."""
    for call in batch:
        if not call.answered:  # interrupted while it gave the answers
            call.fail(_own(error))


def items_of(batch: Sequence[Waiting[T, R]]) -> list[T]:
    return [item for call in batch for item in call.items]


def crowded() -> StoreUnavailable:
    return StoreUnavailable(f"{MOST_WAITING} calls are waiting for the store already; it cannot keep up")


def _own(error: BaseException) -> BaseException:
    if not isinstance(error, Exception):
        return StoreUnavailable(
            "the call that carried this one was interrupted; what became of it is unknown"
        )
    try:
        own = copy.copy(error)
    except Exception:  # noqa: BLE001 - not every error can be made anew from what it holds
        own = StoreUnavailable(f"the call that carried this one failed: {type(error).__name__}: {error}")
    own.__cause__ = error
    return own
