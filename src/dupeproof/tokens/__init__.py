"""One-time tokens: signed, bound to a context, used once."""

from typing import TYPE_CHECKING

from dupeproof.lazy import lazily

if TYPE_CHECKING:
    from dupeproof.tokens.signature import TokenStatus
    from dupeproof.tokens.tokens import OneTimeTokens
    from dupeproof.tokens.tokens_async import AsyncOneTimeTokens

__all__ = ["AsyncOneTimeTokens", "OneTimeTokens", "TokenStatus"]

__getattr__ = lazily(
    __name__,
    {
        "AsyncOneTimeTokens": "tokens_async",
        "OneTimeTokens": "tokens",
        "TokenStatus": "signature",
    },
)
