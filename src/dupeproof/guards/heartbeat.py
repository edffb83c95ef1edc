# No twin: a thread here, timers of the loop in the async counterpart.
"""The heartbeat of open claims: which are due for renewal, for threads and tasks alike, and the thread that renews them.

Every guarded call passes through `add` and `remove`, and nearly all are over long before they are due. So these take
no lock: they change one dict entry, which the interpreter does in one piece, and compare with the time at which the
heartbeat has promised to look again. The promise is withdrawn before the entries are read, so a claim is either among
those read, or finds no promise and wakes the heartbeat.
"""

import threading
import time
from collections.abc import Iterator, Sequence
from itertools import chain, repeat
from typing import Protocol
from weakref import ref

from dupeproof import forks
from dupeproof.core.events import logger
from dupeproof.core.protocols import Store
from dupeproof.core.records import Renew
from dupeproof.errors import StoreUnavailable

NO_PROMISE = float("inf")
_IDLE_SECONDS = 10.0
_LONGEST_START = 1.0
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
    """Open claims and when each is due. Callers bring the time; it does no I/O."""

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

    def promise_at(self, moment: float) -> None:
        """There is no claim; the heartbeat looks then. Who has added one since `promise` was called wakes it."""
        self._promise = moment

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


class Heartbeat:
    """Renews open claims (`defaults.HEARTBEATS_PER_LEASE` times in a lease), from one daemon thread that ends after ten idle seconds.

    The thread gets its turn from the interpreter however busy the handler is; only a C extension that keeps the
    GIL for longer than the lease could starve it. A forked child starts without claims: those of its parent are not
    its to keep alive.
    """

    def __init__(self, store: Store) -> None:
        self._store = store
        self._schedule = RenewalSchedule()
        self.after_fork()
        forks.reset_in_children(self)

    def after_fork(self) -> None:
        self._schedule.clear()
        self._changed = threading.Condition()
        self._thread: threading.Thread | None = None
        self._resting = threading.Event()
        self._stopped = False
        self._rest = _IDLE_SECONDS
        """Seconds after which the thread looks again at the latest: no longer than a claim that woke it may wait. So it
        is woken for the first of many short calls, and not for each of them."""

    def watch(self, claim: Renewable) -> RenewalSchedule:
        """Keep the claim alive, until it is removed from the schedule that is returned."""
        if not forks.page[0]:
            forks.look()
        if self._schedule.add(claim, time.monotonic()):
            self._wake(claim.beat)
        return self._schedule

    def catch_up(self) -> None:
        """Nothing to do: the thread is never late."""

    def stop(self) -> None:
        """End the thread, when the claims that are still open have come to their end."""
        forks.look()
        with self._changed:
            self._stopped = True
            self._changed.notify()

    def _wake(self, beat: float) -> None:
        starts = False
        with self._changed:
            self._stopped = False
            self._rest = min(self._rest, beat)
            if self._thread is None:
                starts = True
                self._resting.clear()
                thread = threading.Thread(target=self._beat, name="dupeproof-heartbeat", daemon=True)
                thread.start()  # which fails where there are too many, and when the interpreter is ending
                self._thread = thread
            else:
                self._changed.notify()
        if starts:
            # A program that forks in C, as uWSGI does when it has loaded the application, must not do so while the new
            # thread waits for the interpreter: in the child nobody would ever take it, and the child hangs.
            self._resting.wait(_LONGEST_START)

    def _beat(self) -> None:
        idle_since = time.monotonic()
        while True:
            with self._changed:
                now = time.monotonic()
                first = self._schedule.promise()
                if first is not None:
                    idle_since = now
                elif self._stopped or now - idle_since >= _IDLE_SECONDS:
                    self._thread = None
                    return
                else:
                    first = now + self._rest
                    self._schedule.promise_at(first)
                self._resting.set()
                self._changed.wait(max(0.0, first - now))
            self._renew()

    def _renew(self) -> None:
        # While the thread rests nothing of it may keep a claim alive: not a variable, nor one that a caught exception
        # still remembers.
        now = time.monotonic()
        due = self._schedule.due(now)
        if due and not self._renewed(due, now) and len(due) > 1:
            # One key that cannot be reached must not cost the others their claims.
            while due:
                self._renewed([due.pop()], now)
        due.clear()

    def _renewed(self, due: list[Renewable], now: float) -> bool:
        try:
            answers = self._store.renew([claim.renewal() for claim in due])
        except StoreUnavailable as exc:
            logger.warning("Renewing %d claims failed; trying again soon: %s", len(due), exc)
        except Exception:
            logger.exception("Renewing %d claims failed; trying again soon", len(due))
        else:
            self._schedule.renewed(due, answers, now)
            return True
        self._schedule.postpone(due, now)
        return False
