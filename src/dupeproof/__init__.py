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
    TokenContextMismatch,
    TokenError,
    TokenExpired,
    TokenForged,
    TokenUsed,
)
from dupeproof.guards import AsyncCooldown, AsyncOnce, Cooldown, Once
from dupeproof.inbox import AsyncInbox, Inbox
from dupeproof.outbox import AsyncOutbox, AsyncRelay, Outbox, Relay
from dupeproof.tokens import AsyncOneTimeTokens, OneTimeTokens

__version__ = "0.1.0"

__all__ = [
    "AsyncCooldown",
    "AsyncInbox",
    "AsyncOnce",
    "AsyncOneTimeTokens",
    "AsyncOutbox",
    "AsyncRelay",
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
    "OneTimeTokens",
    "Outbox",
    "Relay",
    "RetryTransaction",
    "SequenceRefused",
    "StoreUnavailable",
    "TokenContextMismatch",
    "TokenError",
    "TokenExpired",
    "TokenForged",
    "TokenUsed",
    "__version__",
]
