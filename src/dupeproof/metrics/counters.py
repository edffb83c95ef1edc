"""Counting, cheaper than an event: the hot path of a guard adds one to a number. No event is emitted.

Names stay few: whoever makes a namespace per customer must not fill the memory of a metrics server.
"""

import itertools
from collections import Counter

from dupeproof import forks
from dupeproof.core.events import Event, Kind

Labels = tuple[str, str, str]
"""Kind, namespace, name."""
OTHER = "other"
MOST = 200
SECONDS = (0.0005, 0.001, 0.0025, 0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1, 2.5, 5)
LAGS = (0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1, 2.5, 5, 10, 30, 60, 300, 3600)
SIZES = (1, 2, 4, 8, 16, 32, 64, 128, 256, 512, 1024)
"""Where the buckets of histograms end: what a call to a store takes, how long a message waits, how large a batch is."""


class Tallies(forks.Locked):
    """How often each thing happened. The first so many namespaces and names have a number each, later ones share one."""

    def __init__(self, most: int = MOST) -> None:
        super().__init__()
        self._most = most
        self._names: set[tuple[str, str]] = set()
        self._ones: dict[Labels, itertools.count[int]] = {}
        self._more: Counter[Labels] = Counter()

    def count_of(self, kind: Kind, namespace: str, name: str) -> "itertools.count[int]":
        """What to add one to, without a lock: `next` of a count is a single step of the interpreter."""
        count = self._ones.get((kind, namespace, name))
        return self._new(kind, namespace, name) if count is None else count

    def add(self, event: Event) -> None:
        if event.count == 1:
            next(self.count_of(event.kind, event.namespace, event.name))
            return
        with self._lock:
            self._more[self._labels(event.kind, event.namespace, event.name)] += event.count

    def read(self) -> dict[Labels, int]:
        with self._lock:
            found = {labels: _value(count) for labels, count in self._ones.items()}
            for labels, count in self._more.items():
                found[labels] = found.get(labels, 0) + count
            return found

    def _new(self, kind: Kind, namespace: str, name: str) -> "itertools.count[int]":
        with self._lock:
            return self._ones.setdefault(self._labels(kind, namespace, name), itertools.count())

    def _labels(self, kind: Kind, namespace: str, name: str) -> Labels:
        if (namespace, name) not in self._names:
            if len(self._names) >= self._most:
                return str(kind), OTHER, OTHER
            self._names.add((namespace, name))
        return str(kind), namespace, name


def _value(count: "itertools.count[int]") -> int:
    """Without adding to it: what it shows of itself, `count(5)`."""
    return int(repr(count)[6:-1])
