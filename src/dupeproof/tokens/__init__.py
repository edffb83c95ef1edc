"""One-time tokens: signed, bound to a context, used once."""

from dupeproof.tokens._async.tokens import AsyncOneTimeTokens
from dupeproof.tokens._sync.tokens import OneTimeTokens
from dupeproof.tokens.signing import TokenStatus

__all__ = ["AsyncOneTimeTokens", "OneTimeTokens", "TokenStatus"]
