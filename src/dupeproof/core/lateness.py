"""How long after the first one duplicates arrive, in a few buckets, and the window that follows from it. Pure.

A message that came again is counted once, by the last time it did: that is what a window has to outlast. How often it came
in all is counted beside that.
"""

from bisect import bisect_right
from collections.abc import Iterable, Sequence
from itertools import accumulate
from typing import Any

from msgspec import Struct

_SECOND, _MINUTE, _HOUR, _DAY = 1_000, 60_000, 3_600_000, 86_400_000
BOUNDS = (
    *(each * _SECOND for each in (1, 3, 10, 30)),
    *(each * _MINUTE for each in (1, 3, 10, 30)),
    *(each * _HOUR for each in (1, 3, 6, 12)),
    *(each * _DAY for each in (1, 2, 4, 7, 14, 28)),
)
"""Milliseconds. Bucket n ends before the n-th of these, the last one never. Stored by number, so they are for good."""
FRIENDLY = (
    *(each * _MINUTE for each in (1, 5, 15, 30)),
    *(each * _HOUR for each in (1, 2, 4, 8, 12)),
    *(each * _DAY for each in (1, 2, 3, 7, 14, 28, 91, 182, 365)),
)
"""Windows people would choose."""
COVERED, SAFETY = 0.999, 2
"""A suggested window is this many times the age within which that share of the messages came for the last time."""


class Tally(Struct, frozen=True):
    """What is known of the messages of one group in one bucket."""

    group: str
    bucket: int
    messages: int
    duplicates: int
    late: int
    longest: int
    """Milliseconds."""

    @classmethod
    def of(cls, row: Sequence[Any]) -> "Tally":
        """From a database, which may have its own ideas of whole numbers, and nothing for none."""
        group, *figures = row
        return cls(group, *(int(each or 0) for each in figures))

    def __add__(self, other: "Tally") -> "Tally":
        return Tally(
            self.group,
            self.bucket,
            self.messages + other.messages,
            self.duplicates + other.duplicates,
            self.late + other.late,
            max(self.longest, other.longest),
        )


class Lateness(Struct, frozen=True, kw_only=True):
    """How late the duplicates of one group came."""

    counts: tuple[int, ...] = (0,) * (len(BOUNDS) + 1)
    """Messages that came again, by the bucket of the last time they did."""
    duplicates: int = 0
    """How often they came again in all."""
    late: int = 0
    """Of these, how often after their window was over, so that they were taken for new. Only those are known whose mark was
    not purged yet."""
    longest: int = 0
    """Milliseconds between the first time of a message and another one."""

    @property
    def messages(self) -> int:
        return sum(self.counts)

    def within(self, share: float) -> int | None:
        """Milliseconds within which that share of the messages had come for the last time: the end of a bucket, or the
        longest. None where none came again.
        """
        if not self.messages:
            return None
        for bound, so_far in zip(BOUNDS, accumulate(self.counts), strict=False):
            if so_far >= share * self.messages:
                return min(bound, self.longest)
        return self.longest

    @property
    def suggested(self) -> int | None:
        """Milliseconds, rounded up to what people would choose, and never below the longest. None where none came again."""
        covered = self.within(COVERED)
        if covered is None:
            return None
        needed = max(SAFETY * covered, self.longest)
        return next((each for each in FRIENDLY if each >= needed), needed)


def bucket_of(milliseconds: int) -> int:
    return bisect_right(BOUNDS, milliseconds)


def bucket_sql(column: str) -> str:
    """`bucket_of` as SQL of any dialect."""
    cases = " ".join(f"WHEN {column} < {bound} THEN {n}" for n, bound in enumerate(BOUNDS))
    return f"CASE {cases} ELSE {len(BOUNDS)} END"


def merged(tallies: Iterable[Tally]) -> list[Tally]:
    """One for each group and bucket, in order."""
    found: dict[tuple[str, int], Tally] = {}
    for each in tallies:
        place = each.group, each.bucket
        found[place] = found[place] + each if place in found else each
    return [found[place] for place in sorted(found)]


def lateness_by_group(tallies: Iterable[Tally]) -> dict[str, Lateness]:
    together: dict[str, list[Tally]] = {}
    for each in merged(tallies):
        together.setdefault(each.group, []).append(each)
    return {group: _lateness(found) for group, found in together.items()}


def _lateness(tallies: list[Tally]) -> Lateness:
    counts = [0] * (len(BOUNDS) + 1)
    for each in tallies:
        counts[each.bucket] = each.messages
    return Lateness(
        counts=tuple(counts),
        duplicates=sum(each.duplicates for each in tallies),
        late=sum(each.late for each in tallies),
        longest=max(each.longest for each in tallies),
    )
