# No twin: confluent-kafka is for threads; tasks have it in a thread of its own.
"""Messages out of Kafka's topics."""

from collections.abc import Sequence
from typing import Any

from dupeproof.brokers.base import Decided, Delivery, Features
from dupeproof.brokers.kafka.driver import Config
from dupeproof.brokers.kafka.positions import Positions
from dupeproof.brokers.kafka.reader import Reader
from dupeproof.brokers.kafka.topics import Topics
from dupeproof.brokers.kafka.wire import Place, Receipt
from dupeproof.inbox import Inbox


class KafkaSource:
    """With an inbox, the position is in its database, in the transaction of the effect."""

    def __init__(
        self,
        servers: str,
        topics: Topics,
        group: str,
        *,
        create: bool,
        config: Config,
        inbox: Inbox | None,
    ) -> None:
        self.features = Features(delays=False, position=inbox is not None)
        self.name = str(topics)
        self._positions = None if inbox is None else Positions(inbox)
        self._reader = Reader(servers, topics, group, create=create, config=config, positions=self._positions)

    def open(self, most: int) -> None:
        self._reader.open(most)

    def poll(self, most: int, seconds: float) -> list[Delivery]:
        return self._reader.poll(most, seconds)

    def acknowledge(self, decided: Sequence[Decided]) -> None:
        self._reader.acknowledge(decided)

    def keep(self, deliveries: Sequence[Delivery]) -> None:
        """Polling is sign enough."""

    def holds(self, delivery: Delivery) -> bool:
        return self._reader.holds(delivery)

    def record(self, connection: Any, deliveries: Sequence[Delivery]) -> None:
        if self._positions is not None:
            self._positions.record(connection, ends_of(deliveries))

    def lag(self) -> int | None:
        """Messages not worked on yet, in the partitions that are ours; None while that is not known."""
        return self._reader.lag()

    def close(self) -> None:
        self._reader.close()


def ends_of(deliveries: Sequence[Delivery]) -> dict[Place, tuple[int, str]]:
    """The last of each partition, in their order."""
    receipts: list[Receipt] = [each.receipt for each in deliveries]
    return {each.place: (each.offset + 1, each.owner) for each in receipts}
