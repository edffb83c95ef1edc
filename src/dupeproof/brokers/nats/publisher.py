# No twin: nats-py is for tasks only, and is driven here by the thread that uses it.
"""Messages into JetStream, for threads: the loop runs while a batch is under way."""

import asyncio
from collections.abc import Sequence

from dupeproof import defaults
from dupeproof.brokers.errors import NotPublished
from dupeproof.brokers.nats.publisher_async import AsyncNatsPublisher
from dupeproof.brokers.publisher import BrokerPublisher
from dupeproof.brokers.waves import Result
from dupeproof.core.durations import Duration
from dupeproof.outbox.messages import Message


class NatsPublisher(BrokerPublisher):
    """Publishes to the subject named as the topic, which a stream has to keep."""

    def __init__(self, url: str, *, timeout: Duration = defaults.NATS_PUBLISH_TIMEOUT) -> None:
        self._publisher = AsyncNatsPublisher(url, timeout=timeout)

    def _open(self) -> None:
        self._runner = asyncio.Runner()
        self._runner.run(self._publisher._open())  # noqa: SLF001 - one publisher in two coats

    def _send(self, messages: Sequence[Message]) -> Sequence[Result]:
        return self._runner.run(self._publisher._send(messages))  # noqa: SLF001

    def _unfit(self, message: Message, /) -> NotPublished | None:
        return self._publisher._unfit(message)  # noqa: SLF001

    def _close(self) -> None:
        try:
            self._runner.run(self._publisher._close())  # noqa: SLF001
        finally:
            self._runner.close()
