# No twin: confluent-kafka is for threads; tasks have it in a thread of its own.
"""Messages into Kafka, each confirmed by all replicas."""

from collections.abc import Sequence
from contextlib import suppress
from typing import Any

from dupeproof import defaults
from dupeproof.brokers.errors import NotPublished
from dupeproof.brokers.kafka import wire
from dupeproof.brokers.kafka.driver import Config, connection, kafka
from dupeproof.brokers.kafka.producer import flush, producing, send
from dupeproof.brokers.publisher import BrokerPublisher
from dupeproof.brokers.waves import Result
from dupeproof.core.durations import Duration, milliseconds
from dupeproof.outbox.messages import Message


class KafkaPublisher(BrokerPublisher):
    """Publishes to the topic; what has the same key goes to the same partition. The id is in the header `message-id`.

    `config` are settings of librdkafka, which win over ours.
    """

    def __init__(
        self, servers: str, *, timeout: Duration = defaults.PUBLISH_TIMEOUT, config: Config | None = None
    ) -> None:
        self._config = connection(servers, config)
        self._seconds = milliseconds(timeout, name="timeout") / 1_000
        self._producer: Any = None

    def _open(self) -> None:
        self._producer = producing(self._config, self._seconds)

    def _send(self, messages: Sequence[Message]) -> Sequence[Result]:
        records = [(message.topic, wire.published(message)) for message in messages]
        return send(self._producer, records, self._seconds)

    def _unfit(self, message: Message, /) -> NotPublished | None:
        return wire.unfit(message)

    def _close(self) -> None:
        producer, self._producer = self._producer, None
        if producer is not None:
            producer.purge()
            with suppress(kafka.KafkaException):  # a producer that broke has told so before
                flush(producer, 1.0)
