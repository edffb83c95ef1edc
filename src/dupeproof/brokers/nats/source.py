# No twin: nats-py is for tasks only, and is driven here by the thread that uses it.
"""Messages out of a JetStream stream, for threads.

The loop runs while the consumer's own thread waits in one of these calls, and in no other thread. That is often enough:
the runner looks at the broker many times a second, however long handlers take.
"""

import asyncio
from collections.abc import Sequence
from typing import Any

from dupeproof.brokers.base import Decided, Delivery, Features
from dupeproof.brokers.nats.source_async import AsyncNatsSource


class NatsSource:
    def __init__(self, url: str, subject: str, group: str, **options: Any) -> None:
        self._source = AsyncNatsSource(url, subject, group, **options)
        self._runner = asyncio.Runner()
        self.name = subject

    @property
    def features(self) -> Features:
        return self._source.features

    def open(self, most: int) -> None:
        self._runner = asyncio.Runner()
        self._runner.run(self._source.open(most))

    def poll(self, most: int, seconds: float) -> list[Delivery]:
        return self._runner.run(self._source.poll(most, seconds))

    def acknowledge(self, decided: Sequence[Decided]) -> None:
        self._runner.run(self._source.acknowledge(decided))

    def keep(self, deliveries: Sequence[Delivery]) -> None:
        self._runner.run(self._source.keep(deliveries))

    def holds(self, delivery: Delivery) -> bool:
        return self._source.holds(delivery)

    def record(self, connection: Any, deliveries: Sequence[Delivery]) -> None:
        """The broker itself knows."""

    def lag(self) -> int | None:
        return self._runner.run(self._source.lag())

    def close(self) -> None:
        try:
            self._runner.run(self._source.close())
        finally:
            self._runner.close()
            self._runner = asyncio.Runner()  # makes its loop when it is used: closing twice is fine
