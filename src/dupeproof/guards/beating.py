"""Which open claims are due for renewal: the bookkeeping both heartbeats share. Reads no clock, does no I/O."""

from collections.abc import Sequence
from typing import Protocol

from dupeproof.core.records import Renew

_BEATS_PER_LEASE = 3


class Beating(Protocol):
    """An open claim as the heartbeat sees it."""

    @property
    def lease(self) -> float:
        """Seconds."""
        ...

    def renewal(self) -> Renew: ...

    def renewal_refused(self) -> None:
        """Called when the claim turned out to belong to someone else."""
        ...


class Pulse:
    """Open claims and when each is due. Callers bring the time and, with threads, the lock."""

    def __init__(self) -> None:
        self._due: dict[Beating, float] = {}
        self._next = float("inf")

    def __bool__(self) -> bool:
        return bool(self._due)

    def add(self, claim: Beating, now: float) -> bool:
        """Start watching. True when this claim is due before the time the caller is set to wake up at."""
        due = self._due[claim] = now + claim.lease / _BEATS_PER_LEASE
        if due < self._next:
            self._next = due
            return True
        return False

    def remove(self, claim: Beating) -> None:
        self._due.pop(claim, None)

    def clear(self) -> None:
        self._due.clear()

    def delay(self, now: float) -> float | None:
        """Seconds until the next claim is due; None when there is none."""
        self._next = min(self._due.values(), default=float("inf"))
        return max(0.0, self._next - now) if self._due else None

    def due(self, now: float) -> list[Beating]:
        return [claim for claim, due in self._due.items() if due <= now]

    def renewed(self, claims: Sequence[Beating], answers: Sequence[bool], now: float) -> None:
        for claim, ours in zip(claims, answers, strict=True):
            if claim not in self._due:
                continue  # finished meanwhile: its refusal means nothing
            if ours:
                self._due[claim] = now + claim.lease / _BEATS_PER_LEASE
            else:
                del self._due[claim]
                claim.renewal_refused()

    def postpone(self, claims: Sequence[Beating], now: float) -> None:
        """The store did not answer: try again soon, well before the lease is over."""
        for claim in claims:
            if claim in self._due:
                self._due[claim] = now + claim.lease / (_BEATS_PER_LEASE * 4)
