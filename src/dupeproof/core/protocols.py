"""What a store is, sync and async: the contract and the optional abilities."""

from dupeproof.core._async.protocols import (
    AsyncInspectable,
    AsyncSeenSet,
    AsyncSequenced,
    AsyncStore,
    AsyncWaitable,
)
from dupeproof.core._sync.protocols import Inspectable, SeenSet, Sequenced, Store, Waitable

__all__ = [
    "AsyncInspectable",
    "AsyncSeenSet",
    "AsyncSequenced",
    "AsyncStore",
    "AsyncWaitable",
    "Inspectable",
    "SeenSet",
    "Sequenced",
    "Store",
    "Waitable",
]
