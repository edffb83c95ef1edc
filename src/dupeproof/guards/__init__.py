"""Check and process as one unit: Once, Cooldown, and their async forms."""

from dupeproof.guards._async.cooldown import AsyncCooldown
from dupeproof.guards._async.once import AsyncOnce
from dupeproof.guards._sync.cooldown import Cooldown
from dupeproof.guards._sync.once import Once

__all__ = ["AsyncCooldown", "AsyncOnce", "Cooldown", "Once"]
