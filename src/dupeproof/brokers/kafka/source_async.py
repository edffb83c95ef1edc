# No twin: confluent-kafka is for threads; tasks have it in a thread of its own.
"""Messages out of Kafka's topics, for tasks."""

import asyncio
from collections.abc import Callable, Coroutine, Mapping, Sequence
from typing import Any, TypeVar

from dupeproof.brokers.base import Decided, Delivery, Features
from dupeproof.brokers.kafka.driver import Config
from dupeproof.brokers.kafka.positions_async import AsyncPositions
from dupeproof.brokers.kafka.reader import Reader, Start
from dupeproof.brokers.kafka.source import ends_of
from dupeproof.brokers.kafka.threads_async import DaemonThread
from dupeproof.brokers.kafka.topics import Topics
from dupeproof.brokers.kafka.wire import Place
from dupeproof.inbox import AsyncInbox

T = TypeVar("T")


class AsyncKafkaSource:
    """The reader lives in one thread. What it asks of the database, it asks the loop, which waits for it meanwhile."""

    def __init__(
        self,
        servers: str,
        topics: Topics,
        group: str,
        *,
        create: bool,
        config: Config,
        inbox: AsyncInbox | None,
    ) -> None:
        self.features = Features(delays=False, position=inbox is not None)
        self.name = str(topics)
        self._positions = None if inbox is None else AsyncPositions(inbox)
        there = None if self._positions is None else _InLoop(self._positions, self._in_loop)
        self._reader = Reader(servers, topics, group, create=create, config=config, positions=there)
        self._thread = DaemonThread("dupeproof-kafka")
        self._is_used = False

    def _in_loop(self, coroutine: Coroutine[Any, Any, T]) -> T:
        return asyncio.run_coroutine_threadsafe(coroutine, self._loop).result()

    async def _there(self, call: Callable[..., T], *args: Any) -> T:
        self._is_used = True
        return await self._thread.call(call, *args)

    async def open(self, most: int) -> None:
        self._loop = asyncio.get_running_loop()
        await self._there(self._reader.open, most)

    async def poll(self, most: int, seconds: float) -> list[Delivery]:
        return await self._there(self._reader.poll, most, seconds)

    async def acknowledge(self, decided: Sequence[Decided]) -> None:
        await self._there(self._reader.acknowledge, decided)

    async def keep(self, deliveries: Sequence[Delivery]) -> None:
        """Polling is sign enough."""

    def holds(self, delivery: Delivery) -> bool:
        return self._reader.holds(delivery)

    async def record(self, connection: Any, deliveries: Sequence[Delivery]) -> None:
        if self._positions is not None:
            await self._positions.record(connection, ends_of(deliveries))

    async def lag(self) -> int | None:
        """Messages not worked on yet, in the partitions that are ours; None while that is not known."""
        return await self._there(self._reader.lag)

    async def close(self) -> None:
        if self._is_used:
            await self._there(self._reader.close)
            self._thread.close()
            self._is_used = False


class _InLoop:
    """Positions for the reader's thread."""

    def __init__(self, positions: AsyncPositions, run: Callable[[Coroutine[Any, Any, Any]], Any]) -> None:
        self._positions = positions
        self._run = run

    def take(self, places: Mapping[Place, str], owner: str) -> dict[Place, Start]:
        found: dict[Place, Start] = self._run(self._positions.take(places, owner))
        return found

    def confirm(self, places: Mapping[Place, tuple[int, str]], owner: str) -> None:
        self._run(self._positions.confirm(places, owner))
