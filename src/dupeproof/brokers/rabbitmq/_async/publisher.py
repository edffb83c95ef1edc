# No twin: aio-pika and pika are two libraries.
"""Messages into RabbitMQ, each confirmed."""

import asyncio
from collections.abc import Sequence
from typing import Any

from dupeproof.brokers._async.publishing import AsyncBrokerPublisher
from dupeproof.brokers.errors import NotPublished
from dupeproof.brokers.rabbitmq import texts, wire
from dupeproof.brokers.rabbitmq._async.driver import (
    CONNECT_SECONDS,
    aio_pika,
    check_url,
    theirs,
    translated,
)
from dupeproof.brokers.waves import Result
from dupeproof.core.durations import Duration, milliseconds
from dupeproof.outbox.messages import Message


class AsyncRabbitPublisher(AsyncBrokerPublisher):
    """Publishes to `exchange` with the topic as routing key; without one, to the queue named as the topic.

    A message counts as published when the broker has confirmed it, which for a durable queue means: on disk. One that no
    queue gets, or that a queue refuses, is an error of its own (`NotPublished`).
    """

    def __init__(self, url: str, *, exchange: str = "", timeout: Duration = "30s") -> None:
        self._url = check_url(url)
        self._name = exchange
        self._seconds = milliseconds(timeout, name="timeout") / 1_000
        self._connection: Any = None

    async def _open(self) -> None:
        with translated(self._url):
            self._connection = await aio_pika.connect(self._url, timeout=CONNECT_SECONDS)
            channel = await self._connection.channel(on_return_raises=True)
            self._exchange: Any = (
                await channel.get_exchange(self._name, ensure=True)
                if self._name
                else channel.default_exchange
            )

    async def _send(self, messages: Sequence[Message]) -> Sequence[Result]:
        with translated(self._url):
            try:
                async with asyncio.timeout(self._seconds):
                    return await asyncio.gather(*map(self._publish, messages))
            except TimeoutError:
                raise texts.unconfirmed(self._seconds) from None

    async def _publish(self, message: Message) -> Result:
        sent = wire.published(message)
        theirs_ = aio_pika.Message(
            sent.body,
            message_id=sent.message_id,
            headers=sent.headers,
            type=sent.type,
            delivery_mode=aio_pika.DeliveryMode.PERSISTENT,
        )
        try:
            await self._exchange.publish(theirs_, message.topic, mandatory=True)
        except theirs.PublishError:
            return texts.unroutable(message.topic, self._name)
        except theirs.DeliveryError:
            return texts.refused(message.topic)
        return None

    def _unfit(self, message: Message, /) -> NotPublished | None:
        return wire.unfit(message)

    async def _close(self) -> None:
        connection, self._connection = self._connection, None
        if connection is not None and not connection.is_closed:
            try:
                await connection.close()
            except (theirs.AMQPError, OSError, RuntimeError):
                return  # broken already, which is as good
