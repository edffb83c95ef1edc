"""Remove what has expired: in small batches, once or as a background service, sync and async."""

from dupeproof.cleanup._async.purger import AsyncPurger
from dupeproof.cleanup._sync.purger import Purger
from dupeproof.cleanup.pacing import PurgeReport

__all__ = ["AsyncPurger", "PurgeReport", "Purger"]
