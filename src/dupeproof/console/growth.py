"""What arrives, as far as a store shows it: how many keys it holds more than before, and how many duplicates its inboxes met.

A replay leaves no trace in a store, so it is not in here. A process that has a `ConsoleListener` knows those too.
"""

from collections import deque
from collections.abc import Iterable
from itertools import pairwise

from msgspec import Struct

from dupeproof.core.records import Stats

_SAMPLES = 120
_OVER = 60.0
"""Seconds that a rate is taken over."""
_OUTDATED = 15.0
_PAUSES = 4
"""A gap of more than this many of the usual ones, and of `_OUTDATED`, is one in which nobody looked."""


class Count(Struct, frozen=True):
    at: float
    keys: int
    duplicates: int


class Rates(Struct, frozen=True, kw_only=True):
    seconds: float
    """What they were taken over; nothing while there is one count."""
    keys: float
    """New ones a second."""
    duplicates: float
    """A second, of inboxes."""
    keys_between: list[float]
    """A second, between each count and the next."""
    duplicates_between: list[float]


class Growth:
    """Keeps what was counted, for as long as somebody looks."""

    def __init__(self) -> None:
        self._counts: deque[Count] = deque(maxlen=_SAMPLES)

    def add(self, at: float, stats: Stats, duplicates: Iterable[int]) -> None:
        """Counts of one moment, which pages give again and again."""
        count = Count(
            at, stats.marks + sum(stats.records.values()) + stats.expired + stats.inbox, sum(duplicates)
        )
        last = self._counts[-1] if self._counts else None
        if last is not None:
            if at - last.at < 1.0:
                return
            usual = last.at - self._counts[-2].at if len(self._counts) > 1 else 0.0
            if at - last.at > max(_OUTDATED, _PAUSES * usual):
                self._counts.clear()
        self._counts.append(count)

    def rates(self) -> Rates | None:
        """None before the first count."""
        if not self._counts:
            return None
        counts = list(self._counts)
        last = counts[-1]
        recent = [each for each in counts if last.at - each.at <= _OVER]
        first = recent[0] if len(recent) > 1 or len(counts) == 1 else counts[-2]
        seconds = last.at - first.at
        return Rates(
            seconds=seconds,
            keys=_rate(first.keys, last.keys, seconds),
            duplicates=_rate(first.duplicates, last.duplicates, seconds),
            keys_between=[_rate(a.keys, b.keys, b.at - a.at) for a, b in pairwise(counts)],
            duplicates_between=[_rate(a.duplicates, b.duplicates, b.at - a.at) for a, b in pairwise(counts)],
        )


def _rate(before: int, now: int, seconds: float) -> float:
    """A purge takes away what has expired; that is no arrival."""
    return max(0, now - before) / seconds if seconds else 0.0
