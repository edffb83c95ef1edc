"""Check and process as one unit: Once, Cooldown, and their async forms."""

from typing import TYPE_CHECKING

from dupeproof.lazy import lazily

if TYPE_CHECKING:
    from dupeproof.guards.cooldown import Cooldown
    from dupeproof.guards.cooldown_async import AsyncCooldown
    from dupeproof.guards.once import Once
    from dupeproof.guards.once_async import AsyncOnce

__all__ = ["AsyncCooldown", "AsyncOnce", "Cooldown", "Once"]

__getattr__ = lazily(
    __name__,
    {
        "AsyncCooldown": "cooldown_async",
        "AsyncOnce": "once_async",
        "Cooldown": "cooldown",
        "Once": "once",
    },
)
