# Written by tools/twins.py from src/dupeproof/testing/_async/conformance.py; change that file instead.
"""The whole contract as one class to derive from: give it a store, and pytest runs every case on it."""

from dupeproof.testing._sync.batches import BatchCases, LifeCases, MarkCases
from dupeproof.testing._sync.claims import ClaimCases


class StoreConformance(ClaimCases, BatchCases, MarkCases, LifeCases):
    """Derive, override `make_store`, and run pytest."""
