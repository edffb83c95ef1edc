"""Check and process as one unit: Once, Cooldown, and their async forms."""

from typing import TYPE_CHECKING

from dupeproof.lazy import lazily

if TYPE_CHECKING:
    from dupeproof.guards.cooldown import Cooldown
    from dupeproof.guards.cooldown_async import AsyncCooldown
    from dupeproof.guards.lookups import Done, NotDone, Settled, Unknown
    from dupeproof.guards.once import Once
    from dupeproof.guards.once_async import AsyncOnce
    from dupeproof.guards.results import Entry, Result
    from dupeproof.guards.steps import child_key, step

__all__ = [
    "AsyncCooldown",
    "AsyncOnce",
    "Cooldown",
    "Done",
    "Entry",
    "NotDone",
    "Once",
    "Result",
    "Settled",
    "Unknown",
    "child_key",
    "step",
]

__getattr__ = lazily(
    __name__,
    {
        "AsyncCooldown": "cooldown_async",
        "AsyncOnce": "once_async",
        "Cooldown": "cooldown",
        "Done": "lookups",
        "Entry": "results",
        "NotDone": "lookups",
        "Once": "once",
        "Result": "results",
        "Settled": "lookups",
        "Unknown": "lookups",
        "child_key": "steps",
        "step": "steps",
    },
)
