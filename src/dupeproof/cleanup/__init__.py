"""Remove what has expired: in small batches, once or as a background service, sync and async."""

from dupeproof.cleanup.pace import PurgeReport
from dupeproof.cleanup.purger import Purger
from dupeproof.cleanup.purger_async import AsyncPurger

__all__ = ["AsyncPurger", "PurgeReport", "Purger"]
