"""RotatingBloom: ids of the last while, by setting up a new filter now and then and letting the oldest go."""

import math
from collections.abc import Sequence
from pathlib import Path
from typing import Self

from dupeproof.core.clock import Clock, steady_clock, system_clock
from dupeproof.core.durations import Duration, milliseconds
from dupeproof.errors import ConfigError
from dupeproof.filters import snapshots
from dupeproof.filters.bloom_bits import Bits, make_bits, probe, restored_bits, size
from dupeproof.filters.bloom_bits import error_rate as current_error_rate
from dupeproof.filters.local import LocalFilter
from dupeproof.filters.options import MOST_IDS, Acceptance, check_error_rate, whole
from dupeproof.filters.stats import FilterStats

_FEWEST, _MOST = 2, 16


class _Generation:
    """Ids added between two moments of a steady clock."""

    def __init__(self, bits: Bits, opened: int, added: int = 0, closed: int | None = None) -> None:
        self.bits = bits
        self.opened = opened
        self.added = added
        self.closed = closed


class RotatingBloom(LocalFilter):
    """Remembers an id for at least `window` from when it was added, and at most window * (1 + 1 / (generations - 1)).

    `capacity` is the number of ids in any stretch of a window. Each generation takes capacity / (generations - 1) of them
    and is closed when it is full or when a window / (generations - 1) has passed, so bursts fill more of them sooner
    and none beyond its measure. A closed one is dropped a window later. The error rate is that of all of them together.

    Time is that of a clock which cannot be set. Only between `snapshot` and `restore` does the wall clock count: if it
    was set back meanwhile, no time has passed.
    """

    def __init__(
        self,
        capacity: int,
        window: Duration,
        error_rate: float = 0.001,
        *,
        generations: int = 4,
        accept_errors: bool = False,
        clock: Clock = steady_clock,
    ) -> None:
        self._capacity = whole(capacity, "capacity", most=MOST_IDS)
        self._window = milliseconds(window, name="window")
        self._error_rate = check_error_rate(error_rate)
        super().__init__(Acceptance(accept_errors, error_rate))
        self._count = whole(generations, "generations", most=_MOST)
        if generations < _FEWEST:
            raise ConfigError("generations must be at least 2: one in use and one that is remembered")
        self._share = math.ceil(capacity / (generations - 1))
        self._span = math.ceil(self._window / (generations - 1))
        self._clock = clock
        self._now = clock()
        self._unchanged_until = self._now
        self._generations: tuple[_Generation, ...] = ()
        """From the oldest to the one in use."""

    def stats(self) -> FilterStats:
        with self._lock:
            self._turn()
            generations = self._generations
        surely_new = math.prod(1 - current_error_rate(each.bits) for each in generations)
        return FilterStats(
            capacity=self._capacity,
            added=sum(each.added for each in generations),
            bytes=sum(size(each.bits) for each in generations),
            stated_error_rate=self._error_rate,
            estimated_error_rate=1 - surely_new,
            generations=len(generations),
        )

    def snapshot(self, path: Path | str, *, wall_clock: Clock = system_clock) -> None:
        """Write it to a file. A crash on the way leaves the file that was there before."""
        with self._lock:
            now = self._turn()
            parts = [
                snapshots.SavedPart(
                    bytes(each.bits.get_bytes()),
                    each.bits.hashes(),
                    probe(each.bits),
                    each.added,
                    now - each.opened,
                    None if each.closed is None else now - each.closed,
                )
                for each in self._generations
            ]
            saved = snapshots.Saved(
                "RotatingBloom",
                self._capacity,
                self._error_rate,
                parts,
                self._window,
                self._count,
                wall_clock(),
            )
        snapshots.write(path, saved)

    @classmethod
    def restore(
        cls,
        path: Path | str,
        *,
        accept_errors: bool = False,
        clock: Clock = steady_clock,
        wall_clock: Clock = system_clock,
    ) -> Self:
        """The filter as it was written by `snapshot`, in this process or another, older by the time between."""
        saved = snapshots.read(path, "RotatingBloom")
        bloom = cls(
            saved.capacity,
            saved.window / 1_000,
            saved.error_rate,
            generations=saved.generations,
            accept_errors=accept_errors,
            clock=clock,
        )
        then = clock() - max(0, wall_clock() - saved.saved_at)
        bloom._generations = tuple(
            _Generation(
                restored_bits(part.bits, part.hashes),
                then - part.age,
                part.added,
                None if part.closed is None else then - part.closed,
            )
            for part in saved.parts
        )
        if any(
            probe(each.bits) != part.probe for each, part in zip(bloom._generations, saved.parts, strict=True)
        ):
            raise snapshots.other_hashes(path)
        return bloom

    def _add(self, texts: Sequence[str]) -> list[bool]:
        answers: list[bool] = []
        with self._lock:
            while len(answers) < len(texts):
                self._turn()
                *older, current = self._generations
                # No more at a time than the generation has room for, so that it cannot be overfilled.
                part = texts[len(answers) : len(answers) + self._share - current.added]
                met = _in_any(older, part)
                known = current.bits.add_str_if_not_contains
                new = [not (before or known(text)) for before, text in zip(met, part, strict=True)]
                current.added += new.count(True)
                answers += new
            added = sum(each.added for each in self._generations)
        # What is older than a window, but not yet gone, is one generation at most.
        self._over.look("A rotating Bloom filter", added - self._share, self._capacity)
        return answers

    def _might_have(self, texts: Sequence[str]) -> list[bool]:
        with self._lock:
            self._turn()
            return _in_any(self._generations, texts)

    def _turn(self) -> int:
        """Close what is full or has had its time, drop what is over, have one open; the moment that was judged by."""
        now = self._now = max(self._now, self._clock())
        for current in self._generations[-1:]:
            if now < self._unchanged_until and current.added < self._share:
                return now
            if current.added >= self._share or now - current.opened >= self._span:
                # Nobody may have looked for long; its time was over all the same.
                current.closed = min(now, current.opened + self._span)
        kept = [each for each in self._generations if each.closed is None or now - each.closed < self._window]
        if not kept or kept[-1].closed is not None:
            kept.append(_Generation(make_bits(self._share, self._error_rate / self._count), now))
        self._generations = tuple(kept)
        ends = [each.closed + self._window for each in kept if each.closed is not None]
        self._unchanged_until = min([*ends, kept[-1].opened + self._span])
        return now


def _in_any(generations: Sequence[_Generation], texts: Sequence[str]) -> list[bool]:
    answers = [False] * len(texts)
    for each in generations:
        found = each.bits.contains_str_batch(texts)
        answers = [before or now for before, now in zip(answers, found, strict=True)]
    return answers
