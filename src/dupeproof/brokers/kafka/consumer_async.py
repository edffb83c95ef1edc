"""AsyncKafkaConsumer: as all consumers are, but what fails holds up its own partition and no other."""

from dupeproof.brokers.consumer_async import AsyncConsumer
from dupeproof.brokers.kafka.partition_queues import Partitions
from dupeproof.brokers.runtime_async import Workers


class AsyncKafkaConsumer(AsyncConsumer):
    """Made by `consumer(…)`."""

    async def _connect(self, workers: Workers) -> None:
        if not isinstance(self._worker_queues, Partitions):  # a run begins
            self._worker_queues = Partitions(self._plan.concurrency, self._plan.batch)
        await super()._connect(workers)
