# No twin: threads here, tasks and timers in the async counterpart.
"""What the guards need of threads: sleeping, calling, and the heartbeat of open claims."""

import threading
import time
from collections.abc import Callable, Iterable
from types import CoroutineType
from typing import Generic, TypeVar

from dupeproof import forks
from dupeproof.core.events import logger
from dupeproof.core.protocols import Store
from dupeproof.errors import ConfigError, StoreUnavailable
from dupeproof.guards.heartbeat import MOST_AFTERWARDS, Renewable, RenewalSchedule, pauses

IS_ASYNC = False
CANCELLED: tuple[type[BaseException], ...] = ()
"""Nobody cancels a thread."""
C = TypeVar("C")
T = TypeVar("T")
sleep = time.sleep
_IDLE_SECONDS = 10.0


def awaited(value: T) -> T:
    """The value of a call; one that would still have to be awaited never ran, and is refused."""
    if isinstance(value, CoroutineType):
        value.close()
        raise ConfigError(
            "the function returned an awaitable and did not run; use AsyncOnce for async functions"
        )
    return value


class Heartbeat:
    """Renews open claims every third of their lease, from one daemon thread that lives while there are any.

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
        self._stopped = False

    def watch(self, claim: Renewable) -> RenewalSchedule:
        """Keep the claim alive, until it is removed from the schedule that is returned."""
        forks.look()
        if self._schedule.add(claim, time.monotonic()):
            self._wake()
        return self._schedule

    def catch_up(self) -> None:
        """Nothing to do: the thread is never late."""

    def stop(self) -> None:
        """End the thread, when the claims that are still open have come to their end."""
        forks.look()
        with self._changed:
            self._stopped = True
            self._changed.notify()

    def _wake(self) -> None:
        with self._changed:
            self._stopped = False
            if self._thread is None:
                thread = threading.Thread(target=self._beat, name="dupeproof-heartbeat", daemon=True)
                thread.start()  # which fails where there are too many, and when the interpreter is ending
                self._thread = thread
            else:
                self._changed.notify()

    def _beat(self) -> None:
        while True:
            with self._changed:
                first = self._schedule.promise()
                patience = _IDLE_SECONDS if first is None else max(0.0, first - time.monotonic())
                woken = not (self._stopped and first is None) and self._changed.wait(patience)
                if not woken and self._schedule.promise() is None:
                    self._thread = None
                    return
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


class Afterwards(Generic[C]):
    """What the store is still to be told although nobody waits for it; tried again by a daemon thread until it answers."""

    def __init__(self, tell: Callable[[list[C]], None]) -> None:
        self._tell = tell
        self.after_fork()
        forks.reset_in_children(self)

    def after_fork(self) -> None:
        self._changes: list[C] = []
        self._changed = threading.Condition()
        self._thread: threading.Thread | None = None

    def add(self, changes: Iterable[C]) -> None:
        forks.look()
        with self._changed:
            self._changes += list(changes)[: MOST_AFTERWARDS - len(self._changes)]
            if self._thread is None:
                thread = threading.Thread(target=self._work, name="dupeproof-afterwards", daemon=True)
                try:
                    thread.start()
                except RuntimeError as exc:  # too many threads, or the interpreter is ending
                    logger.warning("The store is not told of %d claims for now: %s", len(self._changes), exc)
                else:
                    self._thread = thread

    def stop(self) -> None:
        """Give up what is left: nothing reaches the store after this."""
        forks.look()
        with self._changed:
            thread, self._changes = self._thread, []
            self._changed.notify()
        if thread is not None:
            thread.join()

    def _work(self) -> None:
        for pause in pauses():
            with self._changed:
                if self._changes:
                    self._changed.wait(pause)
                changes = list(self._changes)
                if not changes:
                    self._thread = None
                    return
            try:
                self._tell(changes)
            except StoreUnavailable:
                continue
            except Exception:
                logger.exception("The store could not be told of %d claims", len(changes))
            with self._changed:
                self._changes = self._changes[len(changes) :]
