"""What a store is, sync and async: the contract and the optional abilities."""

from typing import Any, TypeVar

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
    "Purgeable",
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
