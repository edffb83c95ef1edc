# No twin: confluent-kafka is for threads; tasks have it in a thread of its own.
"""Messages into Kafka, for tasks."""

from collections.abc import Sequence

from dupeproof import defaults
from dupeproof.brokers.errors import NotPublished
from dupeproof.brokers.kafka import wire
from dupeproof.brokers.kafka.driver import Config
from dupeproof.brokers.kafka.publisher import KafkaPublisher
from dupeproof.brokers.kafka.threads_async import DaemonThread
from dupeproof.brokers.publisher_async import AsyncBrokerPublisher
from dupeproof.brokers.waves import Result
from dupeproof.core.durations import Duration
from dupeproof.outbox.messages import Message


class AsyncKafkaPublisher(AsyncBrokerPublisher):
    """Publishes to the topic; what has the same key goes to the same partition. The id is in the header `message-id`.

    `config` are settings of librdkafka, which win over ours.
    """

    def __init__(
        self, servers: str, *, timeout: Duration = defaults.PUBLISH_TIMEOUT, config: Config | None = None
    ) -> None:
        self._publisher = KafkaPublisher(servers, timeout=timeout, config=config)
        self._thread = DaemonThread("dupeproof-kafka")

    async def _open(self) -> None:
        self._publisher._open()  # noqa: SLF001 - one publisher in two coats; this does not wait for anything

    async def _send(self, messages: Sequence[Message]) -> Sequence[Result]:
        return await self._thread.call(self._publisher._send, messages)  # noqa: SLF001

    def _unfit(self, message: Message, /) -> NotPublished | None:
        return wire.unfit(message)

    async def _close(self) -> None:
        await self._thread.call(self._publisher._close)  # noqa: SLF001
        self._thread.close()
