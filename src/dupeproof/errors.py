"""Every error dupeproof raises, under one base. The texts are where they are raised: each says what to do."""


class DupeproofError(Exception):
    """Base of all errors raised by dupeproof."""


class ConfigError(DupeproofError, ValueError):
    """The set-up is wrong: a URL, a duration, an option, a decorated function."""


class KeyInvalid(DupeproofError, ValueError):
    """This cannot be a key, or cannot be made into one."""


class KeyMissing(KeyInvalid):
    """There is no key: None, empty, or absent from the arguments or the message."""


class KeyReused(DupeproofError):
    """The same key came with other content."""


class Busy(DupeproofError):
    """Someone else holds a live claim on the key."""

    def __init__(self, text: str, *, retry_after: float = 0.0) -> None:
        super().__init__(text)
        self.retry_after = retry_after


class Held(DupeproofError):
    """The work may have happened, and the policy is `hold`: someone must resolve the key."""

    def __init__(self, text: str, *, asked: bool = False) -> None:
        super().__init__(text)
        self.asked = asked
        """Whether a lookup was asked, which may know later."""


class Dead(DupeproofError):
    """All attempts are used up."""


class ClaimLost(DupeproofError):
    """The claim went to someone else before it was finished; nothing was overwritten."""


class NotReplayable(DupeproofError):
    """The work is done, but its value could not be stored. It is not run again."""


class SequenceRefused(DupeproofError):
    """A number of an epoch that is over, or so old that nobody knows whether it came; `verdict` says which."""

    def __init__(self, text: str, *, verdict: str) -> None:
        super().__init__(text)
        self.verdict = verdict


class RetryTransaction(DupeproofError):
    """The database gave way to another transaction, and nothing of yours is done: roll back and run it again."""


class StoreUnavailable(DupeproofError):
    """The store did not answer in time, or refused to."""

    def __init__(self, text: str, *, refused: bool = False) -> None:
        super().__init__(text)
        self.refused = refused
        """The store will not take the value it was given, now or later, and did nothing."""


class BrokerUnavailable(DupeproofError):
    """The broker cannot be reached, or closed the connection. Nobody is to blame; try again later.

    A publisher of yours may raise it too: then no message is blamed.
    """


class BrokerFull(BrokerUnavailable):
    """What the message is for has no room now, while other messages may be taken. Nobody is to blame either.

    A publisher of yours may raise it, or answer it for a message: that one waits, and others are sent.
    """


class TokenError(DupeproofError):
    """Base of the one-time token errors."""


class TokenForged(TokenError):
    """Nobody with the secret made this token."""


class TokenExpired(TokenError):
    """Its time is over."""


class TokenUsed(TokenError):
    """It was used before; `token_id` is what `redeem` answered then, so what was done with it can be shown again."""

    def __init__(self, text: str, *, token_id: str = "") -> None:
        super().__init__(text)
        self.token_id = token_id


class TokenContextMismatch(TokenError):
    """It was made for something else, and is still good for that."""
