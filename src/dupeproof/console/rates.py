"""From counts to rates by group. Pure."""

from collections import Counter
from collections.abc import Sequence
from itertools import pairwise

from msgspec import Struct

from dupeproof.core.events import Kind
from dupeproof.metrics.counters import Labels

NEW = frozenset({Kind.WON, Kind.TOOK_OVER, Kind.FRESH})
DUPLICATE = frozenset({Kind.REPLAYED, Kind.SEEN, Kind.BUSY, Kind.MISMATCH, Kind.HELD})
TROUBLE = (
    Kind.FAILED, Kind.BUSY, Kind.MISMATCH, Kind.LOST, Kind.ABANDONED, Kind.HELD, Kind.DEAD, Kind.LATE,
    Kind.STORE_DOWN,
)  # fmt: skip
"""What is worth a column of its own."""
_OVER = 10.0
"""Seconds that a rate is taken over."""


class Sample(Struct, frozen=True):
    at: float
    counts: dict[Labels, int]


class GroupRate(Struct, frozen=True, kw_only=True):
    group: str
    arriving: float
    """A second."""
    duplicates: float
    """A second."""
    trouble: dict[str, int]
    """Since the process began, by kind."""

    @property
    def share(self) -> float:
        return self.duplicates / self.arriving if self.arriving else 0.0


class Rates(Struct, frozen=True, kw_only=True):
    groups: list[GroupRate]
    """The busiest first."""
    total: GroupRate
    seconds: float
    """What they were taken over; nothing for the first look."""
    arriving: list[float]
    """A second, between each look and the next."""
    duplicates: list[float]


def rates(samples: Sequence[Sample]) -> Rates:
    """The last one counts, beside the oldest that is not too old."""
    last = samples[-1]
    first = next(each for each in samples if last.at - each.at <= _OVER)
    seconds = last.at - first.at
    before, now = _by_group(first), _by_group(last)
    groups = [_rate(group, counts, before.get(group, Counter()), seconds) for group, counts in now.items()]
    between = [(one, other, other.at - one.at) for one, other in pairwise(samples)]
    return Rates(
        groups=sorted(groups, key=lambda each: (-each.arriving, each.group)),
        total=_rate("", sum(now.values(), Counter()), sum(before.values(), Counter()), seconds),
        seconds=seconds,
        arriving=[(_sum(b, NEW | DUPLICATE) - _sum(a, NEW | DUPLICATE)) / apart for a, b, apart in between],
        duplicates=[(_sum(b, DUPLICATE) - _sum(a, DUPLICATE)) / apart for a, b, apart in between],
    )


def _by_group(sample: Sample) -> dict[str, Counter[str]]:
    found: dict[str, Counter[str]] = {}
    for (kind, namespace, _name), count in sample.counts.items():
        found.setdefault(namespace, Counter())[kind] += count
    return found


def _rate(group: str, now: Counter[str], before: Counter[str], seconds: float) -> GroupRate:
    more = now - before
    duplicates = sum(more[kind] for kind in DUPLICATE)
    arriving = duplicates + sum(more[kind] for kind in NEW)
    return GroupRate(
        group=group,
        arriving=arriving / seconds if seconds else 0.0,
        duplicates=duplicates / seconds if seconds else 0.0,
        trouble={kind: now[kind] for kind in TROUBLE},
    )


def _sum(sample: Sample, kinds: frozenset[Kind]) -> int:
    return sum(count for (kind, _, _), count in sample.counts.items() if kind in kinds)
