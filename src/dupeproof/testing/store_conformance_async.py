"""The whole contract as one class to derive from: give it a store, and pytest runs every case on it."""

from dupeproof.testing.batches_async import AsyncBatchCases, AsyncLifeCases, AsyncMarkCases, AsyncWaitCases
from dupeproof.testing.claims_async import AsyncClaimCases
from dupeproof.testing.sequences_async import AsyncSequenceCases


class AsyncStoreConformance(AsyncClaimCases, AsyncBatchCases, AsyncMarkCases, AsyncLifeCases):
    """Derive, override `make_store`, and run pytest."""


class AsyncWaitConformance(AsyncWaitCases):
    """The same for the ability to wait without polling, where a store has it."""


class AsyncSequenceConformance(AsyncSequenceCases):
    """The same for the ability to deduplicate numbered messages."""
