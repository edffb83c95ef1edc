"""Which partition is worked on when: each in order, and one that waits for another try lets the others go on. Pure."""

from collections import deque
from collections.abc import Callable, Iterable, Sequence

from dupeproof.brokers.base import Delivery
from dupeproof.brokers.kafka.wire import Receipt
from dupeproof.brokers.worker_queues import WorkerQueue, WorkerQueues


class Partition(WorkerQueue):
    """What we have of one partition."""

    __slots__ = ("stuck",)

    def __init__(self) -> None:
        super().__init__()
        self.stuck = False
        """Its first message has failed, and is not past yet."""

    def add(self, each: Delivery) -> None:
        if self.waiting and _owner(self.waiting[-1]) != _owner(each):
            # It went away and came back: those before are read anew, and so is the one that failed.
            self.waiting.clear()
            self.not_before, self.stuck = 0.0, False
        self.waiting.append(each)

    def next(self, most: int, ours: Callable[[Delivery], bool]) -> Sequence[Delivery]:
        chunk: list[Delivery] = []
        while self.waiting and len(chunk) < most:
            each = self.waiting.popleft()
            if ours(each):
                chunk.append(each)
        self.running = chunk
        return chunk

    def give_back(self, each: Delivery) -> bool:
        """What was not done comes first again, unless the partition went away and came back meanwhile."""
        if self.waiting and _owner(self.waiting[-1]) != _owner(each):
            return False
        self.waiting.appendleft(each)
        return True


class Partitions(WorkerQueues):
    """A worker takes from as many partitions as fill its chunk; a partition is with one worker at a time.

    What is stuck is tried again alone, and takes no room from the others. How much of it there can be is the reader's
    business, which pauses a partition of which too much is in work.
    """

    def __init__(self, count: int, chunk: int) -> None:
        super().__init__(count, chunk)
        self._workers = range(count)
        self._at_work: dict[int, Sequence[Delivery]] = {}
        self._partitions: dict[str | None, Partition] = {}
        """Of which we have something, the one that has waited longest for its turn first."""

    @property
    def room(self) -> int:
        return max(0, self.capacity - sum(len(each) for each in self._partitions.values() if not each.stuck))

    @property
    def running(self) -> bool:
        return bool(self._at_work)

    def held(self) -> list[Delivery]:
        """Also asked by other threads, for a probe."""
        return [each for one in [*self._partitions.values()] for each in (*one.running, *one.waiting)]

    def add(self, deliveries: Iterable[Delivery]) -> None:
        for each in deliveries:
            partition = self._partitions.get(each.partition_key)
            if partition is None:
                partition = self._partitions[each.partition_key] = Partition()
            partition.add(each)

    def start(self, now: float, ours: Callable[[Delivery], bool]) -> list[tuple[int, Sequence[Delivery]]]:
        """A chunk for every worker that is free, as long as there are any; what is no longer ours is left out."""
        chunks: list[tuple[int, Sequence[Delivery]]] = []
        free = [number for number in self._workers if number not in self._at_work]
        if not free:
            return chunks
        ready = deque(
            name
            for name, each in self._partitions.items()
            if each.waiting and not each.running and now >= each.not_before
        )
        for place, number in enumerate(free):
            share = -(-len(ready) // (len(free) - place))  # so that every worker has something to do
            chunk = self._next(ready, share, ours)
            if chunk:
                self._at_work[number] = chunk
                chunks.append((number, chunk))
        return chunks

    def _next(
        self, ready: deque[str | None], most: int, ours: Callable[[Delivery], bool]
    ) -> Sequence[Delivery]:
        chunk: list[Delivery] = []
        while ready and most > 0 and len(chunk) < self._chunk:
            partition = self._partitions[ready[0]]
            if chunk and partition.stuck:
                break
            name = ready.popleft()
            most -= 1
            chunk += partition.next(self._chunk - len(chunk), ours)
            del self._partitions[name]
            if len(partition) > 0:
                self._partitions[name] = partition  # as the last
            if chunk and partition.stuck:
                break
        return chunk

    def finish(self, number: int, left: Sequence[Delivery], not_before: float) -> None:
        """The worker is free. The first of what it did not get done has failed, and only its partition waits.

        With `not_before` of zero nothing has failed: there was no time for the rest.
        """
        names = {each.partition_key for each in self._at_work.pop(number)}
        for name in names:
            partition = self._partitions[name]
            partition.running = ()
            partition.not_before, partition.stuck = 0.0, False
        for each in reversed(left):
            partition = self._partitions[each.partition_key]
            if partition.give_back(each) and each is left[0]:
                partition.not_before, partition.stuck = not_before, not_before > 0
        for name in names:
            if len(self._partitions[name]) == 0:
                del self._partitions[name]

    def next_due(self) -> float | None:
        times = [each.not_before for each in self._partitions.values() if each.waiting and not each.running]
        return min(times, default=None)

    def clear(self) -> list[Delivery]:
        left = [each for one in self._partitions.values() for each in one.waiting]
        for one in self._partitions.values():
            one.waiting.clear()
        self._partitions = {name: each for name, each in self._partitions.items() if each.running}
        return left


def _owner(each: Delivery) -> str:
    """Under which name we have its partition: another one each time that it is assigned."""
    receipt: Receipt = each.receipt
    return receipt.owner
