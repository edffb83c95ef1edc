# No twin: threads here, tasks and a loop in the async counterpart.
"""What the runner needs of threads: workers, a rest that can be ended, and signals."""

import inspect
import queue
import signal
import threading
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from typing import Any

from dupeproof.brokers.base import Delivery, Handler
from dupeproof.brokers.outcomes import Finished, Outcome
from dupeproof.errors import ConfigError

SIGNALS = (signal.SIGTERM, signal.SIGINT)


class Workers:
    """A thread for each worker queue, started with its first chunk. Daemons: one that never ends must not keep the process."""

    def __init__(self, count: int, work: Callable[[Sequence[Delivery]], Outcome]) -> None:
        self._work = work
        self._chunks: list[queue.SimpleQueue[Sequence[Delivery] | None]] = [
            queue.SimpleQueue() for _ in range(count)
        ]
        self._finished: queue.SimpleQueue[Finished | None] = queue.SimpleQueue()
        self._threads: dict[int, threading.Thread] = {}

    def start(self, worker_queue: int, chunk: Sequence[Delivery]) -> None:
        if worker_queue not in self._threads:
            thread = threading.Thread(
                target=self._run, args=(worker_queue,), name=f"dupeproof-{worker_queue}", daemon=True
            )
            self._threads[worker_queue] = thread
            thread.start()
        self._chunks[worker_queue].put(chunk)

    def _run(self, worker_queue: int) -> None:
        while (chunk := self._chunks[worker_queue].get()) is not None:
            outcome: Outcome | BaseException
            try:
                outcome = self._work(chunk)
            except BaseException as exc:  # noqa: BLE001 - raised again where it is taken
                outcome = exc
            self._finished.put(Finished(worker_queue, chunk, outcome))

    def finished(self, seconds: float) -> list[Finished]:
        """What was finished since, waiting at most so long for the first, or for `wake`."""
        done: list[Finished] = []
        try:
            first = self._finished.get(timeout=seconds) if seconds > 0 else self._finished.get_nowait()
            while True:
                if first is not None:
                    done.append(first)
                first = self._finished.get_nowait()
        except queue.Empty:
            return done

    def wake(self) -> None:
        self._finished.put(None)

    def close(self) -> None:
        """Threads that have nothing to do end; one that is still at work is left behind."""
        for worker_queue in self._threads:
            self._chunks[worker_queue].put(None)
        deadline = time.monotonic() + 0.1
        for thread in self._threads.values():
            thread.join(max(0.0, deadline - time.monotonic()))


def is_ending(_: BaseException) -> bool:
    """Nobody cancels a thread."""
    return False


def whole(handler: Handler) -> Handler:
    """The handler, with its work done when it returns: what has only begun would be acknowledged undone."""

    def call(*args: Any) -> None:
        begun = handler(*args)
        if inspect.iscoroutine(begun) or inspect.isgenerator(begun):
            begun.close()
        elif not (inspect.isawaitable(begun) or inspect.isasyncgen(begun)):
            return
        raise ConfigError(
            f"the handler, or its middleware, has returned a {type(begun).__name__}, which nobody runs; "
            "make both plain functions without yield, or the handler a coroutine function"
        )

    return call


@contextmanager
def on_signals(stop: Callable[[], None]) -> Iterator[None]:
    """Ask to stop on SIGTERM and Ctrl-C; the second time they do what they did before. Only the main thread hears them."""
    if threading.current_thread() is not threading.main_thread():
        yield
        return
    before = {number: signal.getsignal(number) for number in SIGNALS}

    def restore() -> None:
        for number, handler in before.items():
            signal.signal(number, handler)

    def heard(*_: Any) -> None:
        restore()
        stop()

    for number in SIGNALS:
        signal.signal(number, heard)
    try:
        yield
    finally:
        restore()
