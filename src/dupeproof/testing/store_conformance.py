# Written by tools/twins.py from src/dupeproof/testing/store_conformance_async.py; change that file instead.
"""The whole contract as one class to derive from: give it a store, and pytest runs every case on it."""

from dupeproof.testing.batches import BatchCases, LifeCases, MarkCases, WaitCases
from dupeproof.testing.claims import ClaimCases
from dupeproof.testing.sequences import SequenceCases


class StoreConformance(ClaimCases, BatchCases, MarkCases, LifeCases):
    """Derive, override `make_store`, and run pytest."""


class WaitConformance(WaitCases):
    """The same for the ability to wait without polling, where a store has it."""


class SequenceConformance(SequenceCases):
    """The same for the ability to deduplicate numbered messages."""
