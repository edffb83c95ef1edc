"""What becomes of a key, by how its request was answered, and which responses can be replayed."""

from enum import Enum
from typing import Literal

from dupeproof.errors import ConfigError
from dupeproof.http.answers import Pairs
from dupeproof.http.headers import value_of

OnError = Literal["reopen", "store", "hold"]


class Fate(Enum):
    STORE = "store"
    """Replayed to every later request with this key."""
    RELEASE = "release"
    """Nothing was done: the next one runs as if this had not been."""
    FAIL = "fail"
    """It failed: the next one runs, as another attempt."""
    HOLD = "hold"
    """Nobody knows whether the effect happened: no other run until someone has resolved the key."""


_OF_ERRORS = {"reopen": Fate.FAIL, "store": Fate.STORE, "hold": Fate.HOLD}
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


_WITHOUT_BODY = (204, 205, 304)
_STREAMS = (b"text/event-stream", b"multipart/x-mixed-replace")


def can_be_kept(status: int, headers: Pairs, limit: int) -> bool:
    """Not what is larger than the limit, nor what is made to be read piece by piece."""
    if status in _WITHOUT_BODY:
        return True
    length = None
    for name, value in headers:
        match name.lower():
            case b"content-length":
                length = value
            case b"content-type" if value.lower().startswith(_STREAMS):
                return False
    return length is None or (length.isdigit() and int(length[:20]) <= limit)


def is_unbuffered(headers: Pairs) -> bool:
    """Whether a response in pieces is to go out piece by piece, by the header that proxies read."""
    return (value_of(headers, b"x-accel-buffering") or b"").strip().lower() == b"no"


def has_length(headers: Pairs) -> bool:
    return value_of(headers, b"content-length") is not None
