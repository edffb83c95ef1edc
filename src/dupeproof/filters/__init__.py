"""Little memory, stated error: Bloom filters, compact sets and sequence numbers instead of a record per id."""

from dupeproof.core.sequences import Verdict
from dupeproof.filters._async.sequence import AsyncSequenceGuard
from dupeproof.filters._sync.sequence import SequenceGuard

__all__ = ["AsyncSequenceGuard", "SequenceGuard", "Verdict"]
