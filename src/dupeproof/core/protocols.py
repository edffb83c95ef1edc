"""What a store is, sync and async: the contract and the optional abilities."""

from dupeproof.core._async.protocols import AsyncInspectable, AsyncSeenSet, AsyncStore, AsyncWaitable
from dupeproof.core._sync.protocols import Inspectable, SeenSet, Store, Waitable

__all__ = [
    "AsyncInspectable",
    "AsyncSeenSet",
    "AsyncStore",
    "AsyncWaitable",
    "Inspectable",
    "SeenSet",
    "Store",
    "Waitable",
]
