"""Queues in this process, by the name in their URL: the plainest reading of the contract, for tests and trying out."""

import threading
import time
from collections import deque
from datetime import UTC, datetime
from itertools import count
from urllib.parse import urlsplit

from msgspec import Struct, field

from dupeproof.brokers.errors import BrokerUnavailable
from dupeproof.errors import ConfigError

MOST = 100_000
"""Messages a queue takes; what comes after is refused, as by a broker whose queue is full."""


class Entry(Struct, eq=False):
    """A message as it lies in a queue."""

    id: str | None
    body: bytes
    headers: dict[str, str]
    key: str | None
    topic: str
    type: str = ""
    sent_at: datetime = field(default_factory=lambda: datetime.now(UTC))
    ready_at: float = 0.0
    deliveries: int = 0


class Queue:
    """What waits, and who has what."""

    def __init__(self) -> None:
        self.waiting: deque[Entry] = deque()
        self.held: dict[int, tuple[int, Entry]] = {}
        """By receipt: the session that has it, and what."""


class MemoryBroker:
    """All its queues. `restart` closes every session, as a broker does that is started anew."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._numbers = count(1)
        self._sessions: set[int] = set()
        self.queues: dict[str, Queue] = {}

    def declare(self, name: str) -> None:
        with self._lock:
            self.queues.setdefault(name, Queue())

    def connect(self) -> int:
        with self._lock:
            session = next(self._numbers)
            self._sessions.add(session)
            return session

    def restart(self) -> None:
        for session in list(self._sessions):
            self.leave(session)

    def leave(self, session: int) -> None:
        """What the session had goes back to where it came from."""
        with self._lock:
            self._sessions.discard(session)
            for queue in self.queues.values():
                mine = [receipt for receipt, (owner, _) in queue.held.items() if owner == session]
                queue.waiting.extendleft(queue.held.pop(receipt)[1] for receipt in reversed(mine))

    def put(self, name: str, entry: Entry, *, new: bool = True) -> bool:
        """False when the queue is full; what was in it before, or is dead-lettered, always has a place."""
        with self._lock:
            queue = self._queue(name)
            if new and len(queue.waiting) >= MOST:
                return False
            queue.waiting.append(entry)
            return True

    def take(self, session: int, name: str, most: int) -> list[tuple[int, Entry]]:
        with self._lock:
            self._check(session)
            queue, now = self._queue(name), time.monotonic()
            taken: list[tuple[int, Entry]] = []
            later: list[Entry] = []
            while queue.waiting and len(taken) < most:
                entry = queue.waiting.popleft()
                if entry.ready_at > now:
                    later.append(entry)
                    continue
                entry.deliveries += 1
                receipt = next(self._numbers)
                queue.held[receipt] = session, entry
                taken.append((receipt, entry))
            queue.waiting.extend(later)
            return taken

    def acknowledge(self, session: int, name: str, receipt: int) -> Entry:
        with self._lock:
            self._check(session)
            return self._queue(name).held.pop(receipt)[1]

    def is_connected(self, session: int) -> bool:
        return session in self._sessions

    def _check(self, session: int) -> None:
        if session not in self._sessions:
            raise BrokerUnavailable("the broker closed the connection")

    def _queue(self, name: str) -> Queue:
        found = self.queues.get(name)
        if found is None:
            raise ConfigError(f"there is no queue {name!r}; make it first, or consume with create=True")
        return found


_BROKERS: dict[str, MemoryBroker] = {}


def broker_of(url: str) -> MemoryBroker:
    """The broker of that name in this process, made when first asked for."""
    parts = urlsplit(url)
    if parts.scheme != "memory" or not parts.netloc:
        raise ConfigError("write memory://name; the name tells brokers of one process apart")
    return _BROKERS.setdefault(parts.netloc, MemoryBroker())
