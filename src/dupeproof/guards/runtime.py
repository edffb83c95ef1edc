# No twin: threads here, tasks and timers in the async counterpart.
"""What the guards need of threads: sleeping, calling, and sending to a store that was away."""

import threading
import time
from collections.abc import Callable, Iterable
from types import CoroutineType
from typing import Generic, TypeVar

from dupeproof import forks
from dupeproof.core.events import logger
from dupeproof.errors import ConfigError, StoreUnavailable
from dupeproof.guards.heartbeat import MOST_AFTERWARDS, pauses

IS_ASYNC = False
CANCELLED: tuple[type[BaseException], ...] = ()
"""Nobody cancels a thread."""
UNANSWERED = (StoreUnavailable,)
"""How a call to the store can end without an answer."""
C = TypeVar("C")
T = TypeVar("T")
sleep = time.sleep


def awaited(value: T) -> T:
    """The value of a call; one that would still have to be awaited never ran, and is refused."""
    if isinstance(value, CoroutineType):
        value.close()
        raise ConfigError(
            "the function returned an awaitable and did not run; use AsyncOnce for async functions"
        )
    return value


class Afterwards(Generic[C]):
    """Changes that are still to be sent to the store although nobody waits for them; tried again by a daemon thread until it answers."""

    def __init__(self, send: Callable[[list[C]], None]) -> None:
        self._send = send
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
                    logger.warning(
                        "%d claims are not reported to the store for now: %s", len(self._changes), exc
                    )
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
                self._send(changes)
            except StoreUnavailable:
                continue
            except Exception:
                logger.exception("%d claims could not be reported to the store", len(changes))
            with self._changed:
                self._changes = self._changes[len(changes) :]
