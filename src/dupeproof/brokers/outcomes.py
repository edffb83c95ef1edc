"""What became of a chunk of deliveries, and the sums of it."""

import time
from collections.abc import Sequence

from msgspec import Struct

from dupeproof.brokers.base import Decided, Delivery, Verdict
from dupeproof.core.durations import Duration, milliseconds


class Failed(Struct, frozen=True):
    """A message failed, and nothing of its work is left."""

    error: BaseException


class Outcome(Struct):
    """Verdicts for the first of a chunk; what has none waits in its worker queue for so many seconds."""

    verdicts: list[Verdict]
    wait: float = 0.0


class Finished(Struct):
    """A chunk that a worker is through with."""

    worker_queue: int
    chunk: Sequence[Delivery]
    outcome: Outcome | BaseException


class Postponed(Struct, frozen=True):
    """A dead letter that the broker did not take, and when to try again."""

    decided: Decided
    not_before: float


class Health(Struct, frozen=True):
    """What a consumer says of itself to a probe."""

    ok: bool
    trouble: str
    """Why not, in words; no passwords."""
    in_hand: int
    """Messages that were delivered and are not decided."""
    lag: int | None
    """Messages that waited at the broker when it was last asked, every ten seconds; None where it does not say."""


def health_of(trouble: str, turned_at: float, within: Duration, *, in_hand: int, lag: int | None) -> Health:
    """Of one who has looked at the broker last at `turned_at`, and wants to do so several times a second."""
    silent = time.monotonic() - turned_at
    if not trouble and silent > milliseconds(within, name="within") / 1_000:
        trouble = f"it has not looked at the broker for {silent:.0f} s"
    return Health(ok=not trouble, trouble=trouble, in_hand=in_hand, lag=lag)


class Tally(Struct):
    """What a consumer has done so far."""

    done: int = 0
    duplicates: int = 0
    late: int = 0
    """Of those done: duplicates that came after their window."""
    stale: int = 0
    """Acknowledged without work, because their entity had got a newer one."""
    retried: int = 0
    dead: int = 0
    redelivered: int = 0
    """How many the broker said may have come before."""
    reconnects: int = 0
