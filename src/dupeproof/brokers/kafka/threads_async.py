# No twin: confluent-kafka is for threads; tasks have it in a thread of its own.
"""One thread for calls that wait, for tasks."""

import asyncio
import queue
import threading
from collections.abc import Callable
from typing import Any, TypeVar

T = TypeVar("T")
_Job = tuple[Callable[[], Any], asyncio.AbstractEventLoop, "asyncio.Future[Any]"]


class DaemonThread:
    """Does one call after the other. A process that ends does not wait for it, as it would for Python's own executors."""

    def __init__(self, name: str) -> None:
        self._name = name
        self._jobs: queue.SimpleQueue[_Job | None] = queue.SimpleQueue()
        self._thread: threading.Thread | None = None

    async def call(self, function: Callable[..., T], *args: Any) -> T:
        if self._thread is None:
            self._thread = threading.Thread(target=self._run, name=self._name, daemon=True)
            self._thread.start()
        loop = asyncio.get_running_loop()
        future: asyncio.Future[T] = loop.create_future()
        self._jobs.put((lambda: function(*args), loop, future))
        return await future

    def close(self) -> None:
        """It ends after what it has to do. The next call begins another."""
        if self._thread is not None:
            self._jobs.put(None)
            self._thread = None
            self._jobs = queue.SimpleQueue()

    def _run(self) -> None:
        jobs = self._jobs
        while (job := jobs.get()) is not None:
            function, loop, future = job
            try:
                answer, error = function(), None
            except BaseException as exc:  # noqa: BLE001 - raised again where it is awaited
                answer, error = None, exc
            if not loop.is_closed():
                loop.call_soon_threadsafe(_resolve, future, answer, error)


def _resolve(future: "asyncio.Future[Any]", answer: Any, error: BaseException | None) -> None:
    if future.done():  # nobody waits any more
        return
    if error is None:
        future.set_result(answer)
    else:
        future.set_exception(error)
