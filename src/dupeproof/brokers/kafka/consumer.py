# Written by tools/twins.py from src/dupeproof/brokers/kafka/consumer_async.py; change that file instead.
"""KafkaConsumer: as all consumers are, but what fails holds up its own partition and no other."""

from dupeproof.brokers.consumer import Consumer
from dupeproof.brokers.kafka.partition_queues import Partitions
from dupeproof.brokers.runtime import Workers


class KafkaConsumer(Consumer):
    """Made by `consumer(…)`."""

    def _connect(self, workers: Workers) -> None:
        if not isinstance(self._worker_queues, Partitions):  # a run begins
            self._worker_queues = Partitions(self._plan.concurrency, self._plan.batch)
        super()._connect(workers)
