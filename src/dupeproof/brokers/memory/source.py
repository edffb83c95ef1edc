# Written by tools/twins.py from src/dupeproof/brokers/memory/source_async.py; change that file instead.
"""Messages out of a queue of this process."""

import time
from collections.abc import Sequence
from typing import Any

from dupeproof.brokers.base import Dead, Decided, Delivery, Features, Retry, dead_headers, dead_name
from dupeproof.brokers.ids import delivery
from dupeproof.brokers.memory.broker import Entry, MemoryBroker
from dupeproof.keys.names import check_key

_LOOK_EVERY = 0.005


class MemorySource:
    def __init__(self, broker: MemoryBroker, queue: str, *, create: bool, delays: bool) -> None:
        self.features = Features(delays=delays)
        self.name = queue
        self._broker = broker
        self._create = create
        self._session = 0

    def open(self, most: int) -> None:  # noqa: ARG002 - it has no limit
        if self._create:
            self._broker.declare(self.name)
        self._session = self._broker.connect()
        self._broker.take(self._session, self.name, 0)

    def poll(self, most: int, seconds: float) -> list[Delivery]:
        deadline = time.monotonic() + seconds
        while True:
            taken = self._broker.take(self._session, self.name, most)
            if taken or time.monotonic() >= deadline:
                return [self._delivery(receipt, entry) for receipt, entry in taken]
            time.sleep(_LOOK_EVERY)

    def _delivery(self, receipt: int, entry: Entry) -> Delivery:
        return delivery(
            lambda: None if entry.id is None else check_key(entry.id),
            (self._session, receipt),
            body=entry.body,
            headers=entry.headers,
            topic=entry.topic,
            key=entry.key,
            type=entry.type,
            timestamp=entry.sent_at,
            raw=entry,
            attempt=entry.deliveries,
            redelivered=entry.deliveries > 1,
        )

    def acknowledge(self, decided: Sequence[Decided]) -> None:
        for each, verdict in decided:
            session, receipt = each.receipt
            entry = self._broker.acknowledge(session, self.name, receipt)
            if isinstance(verdict, Retry):
                entry.ready_at = time.monotonic() + verdict.seconds
                entry.deliveries -= not verdict.counted
                self._broker.put(self.name, entry, new=False)
            elif isinstance(verdict, Dead):
                name = dead_name(self.name)
                headers = {**entry.headers, **dead_headers(each, verdict.reason, self.name)}
                aside = Entry(each.sender_id, entry.body, headers, entry.key, name, entry.type, entry.sent_at)
                self._broker.declare(name)
                self._broker.put(name, aside, new=False)

    def keep(self, deliveries: Sequence[Delivery]) -> None:
        """Being in this process is sign enough."""

    def holds(self, delivery: Delivery) -> bool:
        return bool(delivery.receipt[0] == self._session and self._broker.is_connected(self._session))

    def record(self, connection: Any, deliveries: Sequence[Delivery]) -> None:
        """The broker itself knows."""

    def lag(self) -> int | None:
        return len(self._broker.queues[self.name].waiting)

    def close(self) -> None:
        self._broker.leave(self._session)
