"""Make the effect happen once: deduplication, idempotency and exactly-once effects."""

from dupeproof.errors import (
    Busy,
    ClaimLost,
    ConfigError,
    Dead,
    DupeproofError,
    Held,
    KeyInvalid,
    KeyMissing,
    KeyReused,
    NotReplayable,
    RetryTransaction,
    SequenceRefused,
    StoreUnavailable,
    TokenError,
)
from dupeproof.guards import AsyncCooldown, AsyncOnce, Cooldown, Once
from dupeproof.inbox import AsyncInbox, Inbox

__version__ = "0.1.0"

__all__ = [
    "AsyncCooldown",
    "AsyncInbox",
    "AsyncOnce",
    "Busy",
    "ClaimLost",
    "ConfigError",
    "Cooldown",
    "Dead",
    "DupeproofError",
    "Held",
    "Inbox",
    "KeyInvalid",
    "KeyMissing",
    "KeyReused",
    "NotReplayable",
    "Once",
    "RetryTransaction",
    "SequenceRefused",
    "StoreUnavailable",
    "TokenError",
    "__version__",
]
