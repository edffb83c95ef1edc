"""Which delivery is worked on when: one at a time in a worker queue, in order, and as many worker queues as handlers. Pure."""

from collections import deque
from collections.abc import Callable, Iterable, Sequence
from zlib import crc32

from dupeproof.brokers.base import Delivery

AHEAD = 2
"""How many chunks for each worker queue are held: one in work, one ready, so that no handler waits for the broker."""


class WorkerQueue:
    """What waits for one handler."""

    __slots__ = ("not_before", "running", "waiting")

    def __init__(self) -> None:
        self.waiting: deque[Delivery] = deque()
        self.running: Sequence[Delivery] = ()
        self.not_before = 0.0

    def __len__(self) -> int:
        return len(self.waiting) + len(self.running)


class WorkerQueues:
    """All deliveries in our hands."""

    def __init__(self, count: int, chunk: int) -> None:
        self._worker_queues = [WorkerQueue() for _ in range(count)]
        self._chunk = chunk
        self.capacity = count * chunk * AHEAD

    @property
    def room(self) -> int:
        """How many more may be fetched."""
        return max(0, self.capacity - sum(map(len, self._worker_queues)))

    @property
    def running(self) -> bool:
        return any(worker_queue.running for worker_queue in self._worker_queues)

    def held(self) -> list[Delivery]:
        return [
            each
            for worker_queue in self._worker_queues
            for each in (*worker_queue.running, *worker_queue.waiting)
        ]

    def add(self, deliveries: Iterable[Delivery]) -> None:
        for each in deliveries:
            if each.partition_key is None:
                worker_queue = min(self._worker_queues, key=len)
            else:
                worker_queue = self._worker_queues[
                    crc32(each.partition_key.encode(errors="surrogatepass")) % len(self._worker_queues)
                ]
            worker_queue.waiting.append(each)

    def start(self, now: float, ours: Callable[[Delivery], bool]) -> list[tuple[int, Sequence[Delivery]]]:
        """The next chunk of every worker queue that is free and has one; what is no longer ours is left out."""
        chunks: list[tuple[int, Sequence[Delivery]]] = []
        for number, worker_queue in enumerate(self._worker_queues):
            if worker_queue.running or not worker_queue.waiting or now < worker_queue.not_before:
                continue
            chunk: list[Delivery] = []
            while worker_queue.waiting and len(chunk) < self._chunk:
                each = worker_queue.waiting.popleft()
                if ours(each):
                    chunk.append(each)
            if chunk:
                worker_queue.running = chunk
                chunks.append((number, chunk))
        return chunks

    def finish(self, number: int, left: Sequence[Delivery], not_before: float) -> None:
        """The worker queue is free; what it did not get done comes first, when the time has come."""
        worker_queue = self._worker_queues[number]
        worker_queue.running = ()
        worker_queue.waiting.extendleft(reversed(left))
        worker_queue.not_before = not_before if left else 0.0

    def next_due(self) -> float | None:
        """When the first worker queue that waits for a time may go on."""
        times = [
            worker_queue.not_before
            for worker_queue in self._worker_queues
            if worker_queue.waiting and not worker_queue.running
        ]
        return min(times, default=None)

    def clear(self) -> list[Delivery]:
        """What was not begun, which is no longer held."""
        left = [each for worker_queue in self._worker_queues for each in worker_queue.waiting]
        for worker_queue in self._worker_queues:
            worker_queue.waiting.clear()
        return left
