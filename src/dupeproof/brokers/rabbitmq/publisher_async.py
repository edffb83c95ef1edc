# No twin: aio-pika and pika are two libraries.
"""Messages into RabbitMQ, each confirmed."""

import asyncio
from collections.abc import Sequence
from typing import Any

from dupeproof import defaults
from dupeproof.brokers.errors import HungUp, NotPublished
from dupeproof.brokers.publisher_async import AsyncBrokerPublisher
from dupeproof.brokers.rabbitmq import texts, wire
from dupeproof.brokers.rabbitmq.driver_async import (
    TROUBLES,
    aio_pika,
    check_url,
    connect,
    disconnect,
    meaning,
    theirs,
    translated,
)
from dupeproof.brokers.waves import Result, Unanswered
from dupeproof.core.durations import Duration, milliseconds
from dupeproof.outbox.messages import Message


class AsyncRabbitPublisher(AsyncBrokerPublisher):
    """Publishes to `exchange` with the topic as routing key; without one, to the queue named as the topic.

    A message counts as published when the broker has confirmed it, which for a durable queue means: on disk. One that no
    queue gets, or that a queue refuses, is an error of its own (`NotPublished`).
    """

    def __init__(self, url: str, *, exchange: str = "", timeout: Duration = defaults.PUBLISH_TIMEOUT) -> None:
        self._url = check_url(url)
        self._name = exchange
        self._seconds = milliseconds(timeout, name="timeout") / 1_000
        self._connection: Any = None
        self._fault: BaseException | None = None

    async def _open(self) -> None:
        with translated(self._url):
            self._fault = None
            self._connection = await connect(self._url)
            self._connection.close_callbacks.add(self._closed)
            channel = await self._connection.channel(on_return_raises=True)
            self._exchange: Any = (
                await channel.get_exchange(self._name, ensure=True)
                if self._name
                else channel.default_exchange
            )

    def _closed(self, _: Any, exc: BaseException | None) -> None:
        """The driver tells here why, and not to those who wait for a confirmation."""
        if self._fault is None:
            self._fault = exc

    async def _send(self, messages: Sequence[Message]) -> Sequence[Result]:
        tasks = [asyncio.create_task(self._publish(message)) for message in messages]
        try:
            await asyncio.wait(tasks, timeout=self._seconds)
            return [self._result(task) for task in tasks]
        finally:
            for task in tasks:
                task.cancel()

    def _result(self, task: asyncio.Task[Result]) -> Result:
        if not task.done():
            return Unanswered(texts.unconfirmed(self._seconds))
        exc = theirs.ChannelInvalidStateError() if task.cancelled() else task.exception()
        if exc is None:
            return task.result()
        if not isinstance(exc, TROUBLES):
            raise exc
        found = meaning(exc, self._url)
        return Unanswered(
            meaning(self._fault, self._url) if self._fault and isinstance(found, HungUp) else found
        )

    async def _publish(self, message: Message) -> Result:
        sent = wire.published(message)
        theirs_ = aio_pika.Message(sent.body, **sent.properties)
        try:
            await self._exchange.publish(theirs_, message.topic, mandatory=True)
        except theirs.PublishError:
            return texts.unroutable(message.topic, self._name)
        except theirs.DeliveryError:
            return texts.refused(message.topic)
        return None

    def _unfit(self, message: Message, /) -> NotPublished | None:
        return wire.unfit(message, self._connection.transport.connection.connection_tune.frame_max)

    async def _close(self) -> None:
        connection, self._connection = self._connection, None
        await disconnect(connection)
