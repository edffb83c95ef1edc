"""Which delivery is worked on when: one at a time in a lane, in order, and as many lanes as handlers. Pure."""

from collections import deque
from collections.abc import Callable, Iterable, Sequence
from zlib import crc32

from dupeproof.brokers.base import Delivery

AHEAD = 2
"""How many chunks for each lane are held: one in work, one ready, so that no handler waits for the broker."""


class Lane:
    """What waits for one handler."""

    __slots__ = ("not_before", "running", "waiting")

    def __init__(self) -> None:
        self.waiting: deque[Delivery] = deque()
        self.running: Sequence[Delivery] = ()
        self.not_before = 0.0

    def __len__(self) -> int:
        return len(self.waiting) + len(self.running)


class Lanes:
    """All deliveries in our hands."""

    def __init__(self, count: int, chunk: int) -> None:
        self._lanes = [Lane() for _ in range(count)]
        self._chunk = chunk
        self.capacity = count * chunk * AHEAD

    @property
    def room(self) -> int:
        """How many more may be fetched."""
        return max(0, self.capacity - sum(map(len, self._lanes)))

    @property
    def running(self) -> bool:
        return any(lane.running for lane in self._lanes)

    def held(self) -> list[Delivery]:
        return [each for lane in self._lanes for each in (*lane.running, *lane.waiting)]

    def add(self, deliveries: Iterable[Delivery]) -> None:
        for each in deliveries:
            if each.lane is None:
                lane = min(self._lanes, key=len)
            else:
                lane = self._lanes[crc32(each.lane.encode(errors="surrogatepass")) % len(self._lanes)]
            lane.waiting.append(each)

    def start(self, now: float, ours: Callable[[Delivery], bool]) -> list[tuple[int, Sequence[Delivery]]]:
        """The next chunk of every lane that is free and has one; what is no longer ours is left out."""
        chunks: list[tuple[int, Sequence[Delivery]]] = []
        for number, lane in enumerate(self._lanes):
            if lane.running or not lane.waiting or now < lane.not_before:
                continue
            chunk: list[Delivery] = []
            while lane.waiting and len(chunk) < self._chunk:
                each = lane.waiting.popleft()
                if ours(each):
                    chunk.append(each)
            if chunk:
                lane.running = chunk
                chunks.append((number, chunk))
        return chunks

    def finish(self, number: int, left: Sequence[Delivery], not_before: float) -> None:
        """The lane is free; what it did not get done comes first, when the time has come."""
        lane = self._lanes[number]
        lane.running = ()
        lane.waiting.extendleft(reversed(left))
        lane.not_before = not_before if left else 0.0

    def next_due(self) -> float | None:
        """When the first lane that waits for a time may go on."""
        times = [lane.not_before for lane in self._lanes if lane.waiting and not lane.running]
        return min(times, default=None)

    def clear(self) -> list[Delivery]:
        """What was not begun, which is no longer held."""
        left = [each for lane in self._lanes for each in lane.waiting]
        for lane in self._lanes:
            lane.waiting.clear()
        return left
