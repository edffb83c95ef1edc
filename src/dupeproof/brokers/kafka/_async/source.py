# No twin: confluent-kafka is for threads; tasks have it in a thread of its own.
"""Messages out of a Kafka topic, for tasks."""

import asyncio
from collections.abc import Callable, Sequence
from concurrent.futures import ThreadPoolExecutor
from typing import Any, TypeVar

from dupeproof.brokers.base import Delivery, Features, Settled
from dupeproof.brokers.kafka._async.positions import AsyncPositions
from dupeproof.brokers.kafka._sync.source import ends_of
from dupeproof.brokers.kafka.driver import Config
from dupeproof.brokers.kafka.reader import Reader
from dupeproof.inbox import AsyncInbox

T = TypeVar("T")


class AsyncKafkaSource:
    """The reader lives in one thread. What it asks of the database, it asks the loop, which waits for it meanwhile."""

    def __init__(
        self, servers: str, topic: str, group: str, *, create: bool, config: Config, inbox: AsyncInbox | None
    ) -> None:
        self.features = Features(delays=False, counts=False, position=inbox is not None)
        self.name = topic
        self._positions = None if inbox is None else AsyncPositions(inbox, topic)
        take = None if self._positions is None else self._take
        self._reader = Reader(servers, topic, group, create=create, config=config, take=take)
        self._thread: ThreadPoolExecutor | None = None

    def _take(self, partitions: list[int], owner: str) -> dict[int, int]:
        assert self._positions is not None
        return asyncio.run_coroutine_threadsafe(self._positions.take(partitions, owner), self._loop).result()

    async def _there(self, call: Callable[..., T], *args: Any) -> T:
        if self._thread is None:
            self._thread = ThreadPoolExecutor(1, "dupeproof-kafka")
        return await self._loop.run_in_executor(self._thread, call, *args)

    async def open(self, most: int) -> None:
        self._loop = asyncio.get_running_loop()
        await self._there(self._reader.open, most)

    async def poll(self, most: int, seconds: float) -> list[Delivery]:
        return await self._there(self._reader.poll, most, seconds)

    async def settle(self, settled: Sequence[Settled]) -> None:
        await self._there(self._reader.settle, settled)

    async def keep(self, deliveries: Sequence[Delivery]) -> None:
        """Polling is sign enough."""

    def holds(self, delivery: Delivery) -> bool:
        return self._reader.holds(delivery)

    async def record(self, connection: Any, deliveries: Sequence[Delivery]) -> None:
        if self._positions is not None:
            await self._positions.record(connection, ends_of(deliveries))

    async def close(self) -> None:
        if self._thread is not None:
            await self._there(self._reader.close)
            self._thread.shutdown(wait=False)
            self._thread = None
