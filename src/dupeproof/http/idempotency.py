"""For handlers: the request with a key that is being handled.

from dupeproof.http import idempotency

idempotency.attempt()             # 1, or more when an earlier run failed or vanished
idempotency.child_key("charge")   # to pass downstream: the same in every attempt, another for every name
idempotency.store()               # whatever the status, also release() and hold()
"""

from dupeproof.errors import KeyMissing
from dupeproof.http.handling import Handling, current
from dupeproof.http.statuses import Fate

__all__ = ["attempt", "child_key", "hold", "is_guarded", "release", "store"]


def is_guarded() -> bool:
    """Whether this request has a key, and is handled under it."""
    return current.get() is not None


def attempt() -> int:
    """Which attempt at this key this is, from 1."""
    return _current().attempt


def child_key(name: str) -> str:
    """A key for a request that this one makes. Each name gives one, which is the same in every attempt."""
    return _current().child_key(name)


def store() -> None:
    """Store the response, whatever its status."""
    _current().fate = Fate.STORE


def release() -> None:
    """Nothing was done: let the next request with this key run, whatever the status of this response."""
    _current().fate = Fate.RELEASE


def hold() -> None:
    """Nobody knows what was done: no other run of this key until someone has resolved it."""
    handling = _current()
    handling.check_hold()
    handling.fate = Fate.HOLD


def _current() -> Handling:
    handling = current.get()
    if handling is None:
        raise KeyMissing(
            "this request is not handled under a key; ask is_guarded() first, or require keys with required=True"
        )
    return handling
