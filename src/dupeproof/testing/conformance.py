"""The conformance suite for stores, sync and async.

    class TestMyStore(StoreConformance):
        def make_store(self):
            return MyStore()

needs pytest; the async one also pytest-asyncio in auto mode.
"""

from dupeproof.testing.store_conformance import SequenceConformance, StoreConformance, WaitConformance
from dupeproof.testing.store_conformance_async import (
    AsyncSequenceConformance,
    AsyncStoreConformance,
    AsyncWaitConformance,
)

__all__ = [
    "AsyncSequenceConformance",
    "AsyncStoreConformance",
    "AsyncWaitConformance",
    "SequenceConformance",
    "StoreConformance",
    "WaitConformance",
]
