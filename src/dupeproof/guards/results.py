"""Values the guards hand to users: what an attempt gave, and what a dead-letter hook is told."""

from typing import Generic, TypeVar

from msgspec import Struct

T = TypeVar("T")


class Result(Struct, Generic[T], frozen=True):
    """What `attempt` answers, and `attempt_many` for each item."""

    value: T
    replayed: bool
    attempt: int
    error: Exception | None = None
    """What `attempt_many` met instead of a value: the item's own error, or why its key could not be had."""


class DeadCall(Struct, frozen=True, kw_only=True):
    """What `on_dead` is given when a key has used up its attempts."""

    key: str
    namespace: str
    attempt: int
    error: Exception | None
    """What the last attempt raised; None when the last owner vanished."""
