"""What became of a chunk of deliveries, and the sums of it."""

from collections.abc import Sequence

from msgspec import Struct

from dupeproof.brokers.base import Delivery, Verdict


class Outcome(Struct):
    """Verdicts for the first of a chunk; what has none waits in its lane for so many seconds."""

    verdicts: list[Verdict]
    wait: float = 0.0


class Finished(Struct):
    """A chunk that a worker is through with."""

    lane: int
    chunk: Sequence[Delivery]
    outcome: Outcome | BaseException


class Tally(Struct):
    """What a consumer has done so far."""

    done: int = 0
    duplicates: int = 0
    late: int = 0
    """Of those done: duplicates that came after their window."""
    retried: int = 0
    dead: int = 0
    redelivered: int = 0
    """How many the broker said may have come before."""
    reconnects: int = 0
