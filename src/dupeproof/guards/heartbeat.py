"""Which open claims are due for renewal, and when a store that was away is tried again: what sync and async share of
the work behind the calls. Reads no clock, does no I/O.

Every guarded call passes through `add` and `remove`, and nearly all are over long before they are due. So these take
no lock: they change one dict entry, which the interpreter does in one piece, and compare with the time at which the
heartbeat has promised to look again. The promise is withdrawn before the entries are read, so a claim is either among
those read, or finds no promise and wakes the heartbeat.
"""

from collections.abc import Iterator, Sequence
from itertools import chain, repeat
from typing import Protocol
from weakref import ref

from dupeproof.core.records import Renew

NO_PROMISE = float("inf")
MOST_AFTERWARDS = 1_000
"""Changes that are kept for a store that is away; of later ones the lease takes care."""


def pauses() -> Iterator[float]:
    """Seconds before each try to tell such a store."""
    return chain((0.05, 0.1, 0.25, 0.5), repeat(1.0))


class Renewable(Protocol):
    """An open claim as the heartbeat sees it."""

    beat: float
    """Seconds between two renewals."""

    @property
    def is_open(self) -> bool:
        """False from just before it is removed."""
        ...

    def renewal(self) -> Renew: ...

    def renewal_refused(self) -> None:
        """Called when the claim turned out to belong to someone else."""
        ...


class RenewalSchedule:
    """Open claims and when each is due. Callers bring the time."""

    def __init__(self) -> None:
        self._due: dict[ref[Renewable], float] = {}
        """Weakly held: a claim whose owner was interrupted beyond repair is not kept alive by its heartbeat."""
        self._promise = NO_PROMISE

    def __bool__(self) -> bool:
        return bool(self._due)

    def add(self, claim: Renewable, now: float) -> bool:
        """Start watching. True when the heartbeat must be woken, because it would look too late."""
        due = self._due[ref(claim)] = now + claim.beat
        return due < self._promise

    def remove(self, claim: Renewable) -> None:
        self._due.pop(ref(claim), None)

    def clear(self) -> None:
        self._due.clear()
        self._promise = NO_PROMISE

    def promise(self) -> float | None:
        """When the first claim is due; None when there is none. From here on that is when the heartbeat looks."""
        self._promise = NO_PROMISE
        first = min(list(self._due.values()), default=None)
        if first is not None:
            self._promise = first
        return first

    def is_late(self, now: float) -> bool:
        """The heartbeat should have looked by now."""
        return self._promise < now

    def due(self, now: float) -> list[Renewable]:
        found = []
        for reference, due in list(self._due.items()):
            claim = reference()
            if claim is None or not claim.is_open:
                self._due.pop(reference, None)
            elif due <= now:
                found.append(claim)
        return found

    def renewed(self, claims: Sequence[Renewable], answers: Sequence[bool], now: float) -> None:
        for claim, ours in zip(claims, answers, strict=True):
            if ours:
                self._set(claim, now + claim.beat)
            elif claim.is_open:
                self.remove(claim)
                claim.renewal_refused()

    def postpone(self, claims: Sequence[Renewable], now: float) -> None:
        """The store did not answer: try again soon, well before the lease is over."""
        for claim in claims:
            self._set(claim, now + claim.beat / 4)

    def _set(self, claim: Renewable, due: float) -> None:
        """A claim that was closed and removed meanwhile must not come back: look after writing, not before."""
        self._due[ref(claim)] = due
        if not claim.is_open:
            self.remove(claim)
