"""What becomes of a key, by how its request was answered."""

from enum import Enum
from typing import Literal

from dupeproof.errors import ConfigError

OnError = Literal["store", "release", "hold"]


class Fate(Enum):
    STORE = "store"
    """Replayed to every later request with this key."""
    RELEASE = "release"
    """Nothing was done: the next one runs as if this had not been."""
    FAIL = "fail"
    """It failed: the next one runs, as another attempt."""
    HOLD = "hold"
    """Nobody knows whether the effect happened: no other run until someone has resolved the key."""


_OF_ERRORS = {"store": Fate.STORE, "release": Fate.FAIL, "hold": Fate.HOLD}
NOT_DONE = frozenset(
    (
        # Sent elsewhere, with method and body (301 too, for all methods but POST): what is there gives the answer.
        *(301, 307, 308),
        # Welcome again with other credentials, or at another time.
        *(401, 403, 407, 408, 409, 421, 425, 429),
        # Refused for what is in it, before any work: once corrected, it may use its key.
        422,
    )
)
"""Statuses which say that nothing was done. 302 and 303 are results: what a form is answered with when it was taken."""


def of_errors(on_error: OnError) -> Fate:
    try:
        return _OF_ERRORS[on_error]
    except KeyError:
        raise ConfigError(
            f"on_error must be one of {', '.join(map(repr, _OF_ERRORS))}; got {on_error!r}"
        ) from None


def fate_of(status: int, of_error: Fate) -> Fate:
    if status >= 500:
        return of_error
    return Fate.RELEASE if status in NOT_DONE else Fate.STORE
