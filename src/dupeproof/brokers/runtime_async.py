# No twin: tasks and a loop here, threads in the sync counterpart.
"""What the runner needs of the event loop: workers, a rest that can be ended, and signals."""

import asyncio
import signal
import threading
from collections.abc import Awaitable, Callable, Iterator, Sequence
from contextlib import contextmanager

from dupeproof.brokers.base import Delivery, Handler
from dupeproof.brokers.outcomes import Finished, Outcome

SIGNALS = (signal.SIGTERM, signal.SIGINT)


class Workers:
    """A task for each chunk. What they are through with is taken in turn by the one who started them."""

    def __init__(self, _count: int, work: Callable[[Sequence[Delivery]], Awaitable[Outcome]]) -> None:
        self._work = work
        self._loop = asyncio.get_running_loop()
        self._finished: list[Finished] = []
        self._news = asyncio.Event()
        self._tasks: set[asyncio.Task[None]] = set()

    def start(self, worker_queue: int, chunk: Sequence[Delivery]) -> None:
        task = asyncio.create_task(self._run(worker_queue, chunk))
        self._tasks.add(task)
        task.add_done_callback(self._tasks.discard)

    async def _run(self, worker_queue: int, chunk: Sequence[Delivery]) -> None:
        outcome: Outcome | BaseException
        try:
            outcome = await self._work(chunk)
        except asyncio.CancelledError:
            raise
        except BaseException as exc:  # noqa: BLE001 - raised again where it is taken
            outcome = exc
        self._finished.append(Finished(worker_queue, chunk, outcome))
        self._news.set()

    async def finished(self, seconds: float) -> list[Finished]:
        """What was finished since, waiting at most so long for the first, or for `wake`."""
        if not self._finished and seconds > 0:
            try:
                async with asyncio.timeout(seconds):
                    await self._news.wait()
            except TimeoutError:
                return []
        self._news.clear()
        done, self._finished = self._finished, []
        return done

    def wake(self) -> None:
        if not self._loop.is_closed():
            self._loop.call_soon_threadsafe(self._news.set)

    async def close(self) -> None:
        """Give up what is still under way: its transactions are rolled back, its claims run out."""
        for task in self._tasks:
            task.cancel()
        if self._tasks:
            await asyncio.wait(self._tasks, timeout=5)


def is_ending(exc: BaseException) -> bool:
    """Whether it is we who are cancelled, and not only something that a handler has waited for."""
    task = asyncio.current_task()
    return isinstance(exc, asyncio.CancelledError) and task is not None and task.cancelling() > 0


def whole(handler: Handler) -> Handler:
    """What it returns is awaited, so it is done then."""
    return handler


@contextmanager
def on_signals(stop: Callable[[], None]) -> Iterator[None]:
    """Ask to stop on SIGTERM and Ctrl-C; the second time they do what they did before. Only the main thread hears them."""
    if threading.current_thread() is not threading.main_thread():
        yield
        return
    loop = asyncio.get_running_loop()
    before = {number: signal.getsignal(number) for number in SIGNALS}

    def restore() -> None:
        for number, handler in before.items():
            loop.remove_signal_handler(number)
            signal.signal(number, handler)

    def heard() -> None:
        restore()
        stop()

    for number in SIGNALS:
        loop.add_signal_handler(number, heard)
    try:
        yield
    finally:
        restore()
