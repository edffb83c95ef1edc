"""Make the effect happen once: deduplication, idempotency and exactly-once effects.

What has parts of its own is imported when it is first asked for (PEP 562), so that `import dupeproof` costs little.
"""

from typing import TYPE_CHECKING

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
from dupeproof.lazy import lazily

if TYPE_CHECKING:
    from dupeproof.guards import (
        AsyncCooldown,
        AsyncOnce,
        Cooldown,
        Done,
        Entry,
        NotDone,
        Once,
        Unknown,
        child_key,
        step,
    )
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
    "Done",
    "DupeproofError",
    "Entry",
    "Held",
    "Inbox",
    "KeyInvalid",
    "KeyMissing",
    "KeyReused",
    "NotDone",
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
    "Unknown",
    "__version__",
    "child_key",
    "step",
]

__getattr__ = lazily(
    __name__,
    {
        "AsyncCooldown": "guards",
        "AsyncInbox": "inbox",
        "AsyncOnce": "guards",
        "AsyncOneTimeTokens": "tokens",
        "AsyncOutbox": "outbox",
        "AsyncRelay": "outbox",
        "Cooldown": "guards",
        "Done": "guards",
        "Entry": "guards",
        "NotDone": "guards",
        "Inbox": "inbox",
        "Once": "guards",
        "OneTimeTokens": "tokens",
        "Outbox": "outbox",
        "Relay": "outbox",
        "Unknown": "guards",
        "child_key": "guards",
        "step": "guards",
    },
)


def __dir__() -> list[str]:
    return sorted({*globals(), *__all__})
