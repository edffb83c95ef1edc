"""What a claim answers. Outcomes are values: a duplicate is not an exception."""

from msgspec import Struct


class Won(Struct, frozen=True, gc=False):
    """The caller owns the key."""

    attempt: int
    took_over: bool = False
    """The owner of before vanished; its work may have happened."""


class Done(Struct, frozen=True, gc=False):
    """Finished before, inside the window."""

    result: bytes
    codec: str
    attempt: int


class Busy(Struct, frozen=True, gc=False):
    """Someone else owns the key."""

    lease_left: int
    """Milliseconds until the claim runs out unless it is renewed."""


class Mismatch(Struct, frozen=True, gc=False):
    """The key is known with other content. Judged before everything else."""


class Held(Struct, frozen=True, gc=False):
    """The owner vanished and asked for the key to be held."""

    attempt: int


class Dead(Struct, frozen=True, gc=False):
    """All attempts are used up."""

    attempt: int
    newly: bool
    """True for the one claim that found the last attempt abandoned and closed the key."""


Outcome = Won | Done | Busy | Mismatch | Held | Dead
