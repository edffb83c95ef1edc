"""What a store is, sync and async: the contract and the optional abilities."""

from collections.abc import Callable, Sequence
from typing import Any, Protocol, TypeVar, runtime_checkable

from dupeproof.core.contract import (
    Copies,
    Inspectable,
    KeepsCopies,
    Purgeable,
    SeenSet,
    Sequenced,
    Store,
    Waitable,
)
from dupeproof.core.contract_async import (
    AsyncCopies,
    AsyncInspectable,
    AsyncKeepsCopies,
    AsyncPurgeable,
    AsyncSeenSet,
    AsyncSequenced,
    AsyncStore,
    AsyncWaitable,
)
from dupeproof.core.records import ClaimRequest, FoundMark, Terms

__all__ = [
    "AsyncCopies",
    "AsyncInspectable",
    "AsyncKeepsCopies",
    "AsyncPurgeable",
    "AsyncSeenSet",
    "AsyncSequenced",
    "AsyncStore",
    "AsyncWaitable",
    "Copies",
    "Inspectable",
    "KeepsCopies",
    "KeepsNames",
    "NamedMarks",
    "Purgeable",
    "RunsHere",
    "SeenSet",
    "Sequenced",
    "Store",
    "Waitable",
    "ability",
]


AbilityT = TypeVar("AbilityT")


def ability(store: object, kind: type[AbilityT]) -> AbilityT | None:
    """The store, or the one it is wrapped around, that can do this; None where none can."""
    found: Any = store
    while found is not None and not isinstance(found, kind):
        found = getattr(found, "wrapped", None)
    return found


class NamedMarks(Protocol):
    """The marks of one namespace by their very keys. Nothing in it waits, so sync and async guards share it."""

    def marker(self, window: int, otherwise: Callable[[object, object], bool]) -> Callable[..., bool]:
        """`seen(key, *, meta=None)` as a bare function; what is not a plain key alone is left to `otherwise`."""
        ...

    def mark(self, key: str, window: int, meta: bytes = b"") -> bool:
        """True when the key was absent or expired."""
        ...

    def mark_many(self, keys: Sequence[str], window: int) -> list[bool]: ...

    def find(self, key: str) -> FoundMark | None: ...

    def forget(self, key: str) -> bool: ...


@runtime_checkable
class KeepsNames(Protocol):
    """Ability: the store is the caller's own memory, where making a digest would cost more than keeping the mark."""

    def names(self, namespace: str) -> NamedMarks: ...


@runtime_checkable
class RunsHere(Protocol):
    """Ability: the store is the caller's own memory, where a claim can be owned by the call itself.

    It then lasts as long as the call, and needs no token, lease or heartbeat.
    """

    def begin(self, key: bytes, terms: Terms, fingerprint: bytes) -> Any | None:
        """Take a key of which nothing is known. The owner, to be kept until the call is over; None if it is known."""
        ...

    def complete(self, key: bytes, owner: Any, window: int, result: bytes, codec: str) -> bool:
        """Store the result. False when the key is no longer the owner's, because it was forgotten."""
        ...

    def hand_over(self, request: ClaimRequest, owner: Any) -> bool:
        """Make it an ordinary claim with this token and a lease from now on."""
        ...
