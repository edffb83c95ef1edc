# No twin: threads here, tasks and timers in the async counterpart.
"""What the guards need of threads: sleeping, calling, and the heartbeat of open claims."""

import inspect
import threading
import time
from typing import TypeVar

from dupeproof.core.events import logger
from dupeproof.core.protocols import Store
from dupeproof.errors import ConfigError
from dupeproof.guards.beating import Beating, Pulse

IS_ASYNC = False
T = TypeVar("T")
sleep = time.sleep
_IDLE_SECONDS = 10.0


def settle(value: T) -> T:
    """The value of a call; one that would still have to be awaited never ran, and is refused."""
    if inspect.isawaitable(value):
        close = getattr(value, "close", None)
        if close is not None:
            close()
        raise ConfigError(
            "the function returned an awaitable and did not run; use AsyncOnce for async functions"
        )
    return value


def shielded(work: T) -> T:
    return work


class Heartbeat:
    """Renews open claims every third of their lease, from one daemon thread that lives while there are any.

    The thread gets its turn from the interpreter however busy the handler is; only a C extension that keeps the
    GIL for longer than the lease could starve it.
    """

    def __init__(self, store: Store) -> None:
        self._store = store
        self._pulse = Pulse()
        self._changed = threading.Condition()
        self._thread: threading.Thread | None = None
        self._stopped = False

    def watch(self, claim: Beating) -> None:
        with self._changed:
            self._stopped = False
            sooner = self._pulse.add(claim, time.monotonic())
            if self._thread is None or not self._thread.is_alive():
                self._thread = threading.Thread(target=self._beat, name="dupeproof-heartbeat", daemon=True)
                self._thread.start()
            elif sooner:
                self._changed.notify()

    def unwatch(self, claim: Beating) -> None:
        with self._changed:
            self._pulse.remove(claim)

    def stop(self) -> None:
        with self._changed:
            self._pulse.clear()
            self._stopped = True
            self._changed.notify()

    def _beat(self) -> None:
        while True:
            with self._changed:
                delay = self._pulse.delay(time.monotonic())
                woken = not self._stopped and self._changed.wait(_IDLE_SECONDS if delay is None else delay)
                if not self._pulse and not woken:
                    self._thread = None
                    return
                now = time.monotonic()
                due = self._pulse.due(now)
            if due:
                self._renew(due, now)

    def _renew(self, due: list[Beating], now: float) -> None:
        try:
            answers = self._store.renew([claim.renewal() for claim in due])
        except Exception:
            logger.exception("Renewing %d claims failed; trying again soon", len(due))
            with self._changed:
                self._pulse.postpone(due, now)
        else:
            with self._changed:
                self._pulse.renewed(due, answers, now)
