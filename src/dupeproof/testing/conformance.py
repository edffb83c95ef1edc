"""The conformance suite for stores, sync and async.

    class TestMyStore(StoreConformance):
        def make_store(self):
            return MyStore()

needs pytest; the async one also pytest-asyncio in auto mode.
"""

from dupeproof.testing._async.conformance import (
    AsyncSequenceConformance,
    AsyncStoreConformance,
    AsyncWaitConformance,
)
from dupeproof.testing._sync.conformance import SequenceConformance, StoreConformance, WaitConformance

__all__ = [
    "AsyncSequenceConformance",
    "AsyncStoreConformance",
    "AsyncWaitConformance",
    "SequenceConformance",
    "StoreConformance",
    "WaitConformance",
]
