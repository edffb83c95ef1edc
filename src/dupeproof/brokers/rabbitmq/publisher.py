# No twin: pika and aio-pika are two libraries.
"""Messages into RabbitMQ, each confirmed. The loop of pika's connection runs while there is something to wait for."""

import time
from collections.abc import Callable, Sequence
from typing import Any

from dupeproof import defaults
from dupeproof.brokers.errors import BrokerUnavailable, NotPublished
from dupeproof.brokers.publisher import BrokerPublisher
from dupeproof.brokers.rabbitmq import texts, wire
from dupeproof.brokers.rabbitmq.driver import CONNECT_SECONDS, parameters, pika, translated
from dupeproof.brokers.waves import Result, Unanswered
from dupeproof.core.durations import Duration, milliseconds
from dupeproof.errors import DupeproofError
from dupeproof.outbox.messages import Message


class RabbitPublisher(BrokerPublisher):
    """Publishes to `exchange` with the topic as routing key; without one, to the queue named as the topic.

    A message counts as published when the broker has confirmed it, which for a durable queue means: on disk. One that no
    queue gets, or that a queue refuses, is an error of its own (`NotPublished`).
    """

    def __init__(self, url: str, *, exchange: str = "", timeout: Duration = defaults.PUBLISH_TIMEOUT) -> None:
        self._url = url
        self._exchange = exchange
        self._seconds = milliseconds(timeout, name="timeout") / 1_000
        self._parameters = parameters(url)
        # Between two batches nobody would answer heartbeats; that the other side is there, TCP finds out.
        self._parameters.heartbeat = 0
        self._parameters.blocked_connection_timeout = self._seconds
        self._connection: Any = None
        self._fault: BaseException | None = None
        self._results: dict[int, Result] = {}
        self._waiting: dict[int, Message] = {}
        self._numbers = 0

    def _open(self) -> None:
        with translated(self._url):
            self._fault = None
            self._numbers = 0
            self._connection = pika.SelectConnection(
                self._parameters, self._opened, self._broken, self._broken
            )
            self._channel: Any = None
            self._ready = False
            self._loop_until(lambda: self._ready, CONNECT_SECONDS)

    def _opened(self, connection: Any) -> None:
        connection.channel(on_open_callback=self._channel_opened)

    def _channel_opened(self, channel: Any) -> None:
        self._channel = channel
        channel.add_on_close_callback(self._broken)
        channel.add_on_return_callback(self._returned)
        channel.confirm_delivery(self._confirmed, callback=self._look_for_exchange)

    def _look_for_exchange(self, _: Any) -> None:
        if self._exchange:
            self._channel.exchange_declare(self._exchange, passive=True, callback=self._all_there)
        else:
            self._all_there(None)

    def _all_there(self, _: Any) -> None:
        self._ready = True

    def _broken(self, _: Any, reason: BaseException) -> None:
        if self._fault is None:
            self._fault = reason

    def _send(self, messages: Sequence[Message]) -> Sequence[Result]:
        numbers = range(self._numbers + 1, self._numbers + 1 + len(messages))
        self._numbers = numbers.stop - 1
        self._waiting = dict(zip(numbers, messages, strict=True))
        self._results = dict.fromkeys(numbers)
        try:
            with translated(self._url):
                self._publish_all(messages)
        except DupeproofError as exc:
            self._results.update((number, Unanswered(exc)) for number in self._waiting)
        return [*self._results.values()]

    def _publish_all(self, messages: Sequence[Message]) -> None:
        for message in messages:
            sent = wire.published(message)
            properties = pika.BasicProperties(**sent.properties)
            self._channel.basic_publish(self._exchange, message.topic, sent.body, properties, mandatory=True)
        self._loop_until(lambda: not self._waiting, self._seconds)

    def _returned(self, _channel: Any, method: Any, properties: Any, _body: bytes) -> None:
        """A message no queue gets comes back before its confirmation. The first with its id that has none yet is meant."""
        ident = properties.message_id or (properties.headers or {}).get(wire.LONG_ID)
        for number, message in self._waiting.items():
            if message.id == ident and message.topic == method.routing_key and self._results[number] is None:
                self._results[number] = texts.unroutable(message.topic, self._exchange)
                return

    def _confirmed(self, frame: Any) -> None:
        method = frame.method
        last = method.delivery_tag
        numbers = [n for n in self._waiting if n <= last] if method.multiple else [last]
        for number in numbers:
            message = self._waiting.pop(number, None)
            if message is not None and isinstance(method, pika.spec.Basic.Nack):
                self._results[number] = texts.refused(message.topic)

    def _loop_until(self, done: Callable[[], bool], seconds: float, *, closing: bool = False) -> None:
        """Let the connection work until then. What breaks it is raised, unless it is to be closed anyway."""
        loop = self._connection.ioloop
        deadline = time.monotonic() + seconds
        loop.activate_poller()
        try:
            while not done():
                if self._fault is not None and not closing:
                    raise self._fault
                if time.monotonic() > deadline:
                    raise texts.unconfirmed(seconds)
                wake = loop.call_later(min(1.0, seconds), lambda: None)
                loop.poll()
                loop.process_timeouts()
                loop.remove_timeout(wake)
        finally:
            loop.deactivate_poller()

    def _unfit(self, message: Message, /) -> NotPublished | None:
        return wire.unfit(message, self._connection.params.frame_max)

    def _close(self) -> None:
        self._waiting.clear()
        self._results.clear()
        connection = self._connection
        if connection is None:
            return
        try:
            if connection.is_open:
                connection.close()
            self._loop_until(lambda: bool(connection.is_closed), 1.0, closing=True)
        except (BrokerUnavailable, pika.exceptions.AMQPError):
            return  # broken, or too slow to say goodbye
        finally:
            self._connection = None
            connection.ioloop.close()
