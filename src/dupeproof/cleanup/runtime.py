# No twin: a thread here, a task in the async counterpart.
"""A background service as one daemon thread: started once, stopped for sure, and not believed alive after a fork."""

import os
import threading
from collections.abc import Callable

IS_ASYNC = False


class Stopping:
    """The wish to stop, which the work looks at between its steps."""

    def __init__(self) -> None:
        self._event = threading.Event()

    def set(self) -> None:
        self._event.set()

    def is_set(self) -> bool:
        return self._event.is_set()

    def wait(self, seconds: float) -> bool:
        """Rest for so long; True, at once, when asked to stop."""
        return self._event.wait(seconds)


class Service:
    """Runs `work(stopping)` in a thread of its own. Each start has its own `Stopping`."""

    def __init__(self, name: str, work: Callable[[Stopping], None]) -> None:
        self._name = name
        self._work = work
        self._begin()

    def _begin(self) -> None:
        self._pid = os.getpid()
        self._lock = threading.Lock()
        self._thread: threading.Thread | None = None
        self._stopping = Stopping()

    def _at_home(self) -> None:
        """The child of a fork has neither the thread nor a lock anyone will ever release."""
        if self._pid != os.getpid():
            self._begin()

    @property
    def running(self) -> bool:
        self._at_home()
        return self._thread is not None and self._thread.is_alive()

    def start(self) -> None:
        self._at_home()
        with self._lock:
            if not self.running:
                self._stopping = Stopping()
                self._thread = threading.Thread(
                    target=self._work, args=(self._stopping,), name=self._name, daemon=True
                )
                self._thread.start()

    def stop(self) -> None:
        self._at_home()
        with self._lock:
            thread, self._thread = self._thread, None
            self._stopping.set()
        if thread is not None and thread is not threading.current_thread():
            thread.join()
