"""Counting, cheaper than an event: the hot path of a guard adds one to a number, and nobody is told before it is read.

Names stay few: whoever makes a namespace per customer must not fill the memory of a metrics server.
"""

import itertools
import threading
from collections import Counter
from collections.abc import Callable

from dupeproof.core.events import Event, Kind

Labels = tuple[str, str, str]
"""Kind, namespace, name."""
OTHER = "other"
MOST = 200


class Tallies:
    """How often each thing happened. The first so many namespaces and names have a number each, later ones share one."""

    def __init__(self, most: int = MOST) -> None:
        self._most = most
        self._lock = threading.Lock()
        self._names: set[tuple[str, str]] = set()
        self._ones: dict[Labels, itertools.count[int]] = {}
        self._more: Counter[Labels] = Counter()
        self._bumps: dict[Labels, Callable[[], int]] = {}

    def counter(self, kind: Kind, namespace: str, name: str) -> Callable[[], int]:
        """A function that adds one, without a lock: `next` of a count is a single step of the interpreter."""
        bump = self._bumps.get((kind, namespace, name))
        return self._new(kind, namespace, name) if bump is None else bump

    def add(self, event: Event) -> None:
        if event.count == 1:
            self.counter(event.kind, event.namespace, event.name)()
            return
        with self._lock:
            self._more[self._labels(event.kind, event.namespace, event.name)] += event.count

    def read(self) -> dict[Labels, int]:
        with self._lock:
            ones = {labels: _value(count) for labels, count in self._ones.items()}
            return dict(Counter(ones) + self._more)

    def _new(self, kind: Kind, namespace: str, name: str) -> Callable[[], int]:
        with self._lock:
            labels = self._labels(kind, namespace, name)
            bump = self._ones.setdefault(labels, itertools.count()).__next__
            if labels[1:] == (namespace, name):
                self._bumps[labels] = bump
            return bump

    def _labels(self, kind: Kind, namespace: str, name: str) -> Labels:
        if (namespace, name) not in self._names:
            if len(self._names) >= self._most:
                return str(kind), OTHER, OTHER
            self._names.add((namespace, name))
        return str(kind), namespace, name


def _value(count: "itertools.count[int]") -> int:
    """Without adding to it: what it shows of itself, `count(5)`."""
    return int(repr(count)[6:-1])
