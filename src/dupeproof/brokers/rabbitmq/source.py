# No twin: pika and aio-pika are two libraries.
"""Messages out of a RabbitMQ queue. One thread owns the connection: pika is not made for more."""

from collections import deque
from collections.abc import Sequence
from typing import Any

from dupeproof.brokers.base import RELEASE, Ack, Dead, Decided, Delivery, Features, Retry, dead_name
from dupeproof.brokers.rabbitmq import texts, wire
from dupeproof.brokers.rabbitmq.copies import Copies
from dupeproof.brokers.rabbitmq.driver import copies_parameters, parameters, pika, translated
from dupeproof.brokers.rabbitmq.pika_headers import Connection
from dupeproof.brokers.rabbitmq.topology import Topology
from dupeproof.core.events import logger

_REFUSED, _NOT_FOUND = 403, 404


class RabbitSource:
    """Acknowledges by hand; messages that are to come again wait in a queue of ours, and return from there.

    Publishes nothing by the connection it consumes from, so that the broker always reads what comes by it.
    """

    features = Features(delays=True)

    def __init__(
        self, url: str, queue: str, *, topology: Topology, dead: str | None, prefetch: int | None
    ) -> None:
        self.name = queue
        self._url = url
        self._topology = topology
        self._dead = dead_name(queue) if dead is None else dead
        wire.check_names(queue, self._dead)
        self._prefetch = prefetch
        self._parameters = parameters(url)
        self._copies = Copies(copies_parameters(url))
        self._connection: Any = None
        self._arrived: deque[Delivery] = deque()
        self._unacknowledged: set[int] = set()
        self._there: set[str] = set()
        self._is_checked = False
        self._cancelled = False
        self._subscription: str | None = None

    def open(self, most: int) -> None:
        with translated(self._url):
            self._connection = pika.BlockingConnection(self._parameters, Connection)
            self._channel = self._connection.channel()
            self._side = self._connection.channel()
            self._arrived.clear()
            self._unacknowledged.clear()
            self._there.clear()
            self._cancelled = False
            if self._topology.create:
                self._declare()
            self._channel.queue_declare(self.name, passive=True)
            self._check()
            self._channel.basic_qos(prefetch_count=min(65_535, self._prefetch or most))
            self._channel.add_on_cancel_callback(self._cancel)
            self._subscription = self._channel.basic_consume(self.name, self._arrive)

    def _arrive(self, channel: Any, method: Any, properties: Any, body: bytes) -> None:
        self._unacknowledged.add(method.delivery_tag)
        raw = wire.PikaMessage(method, properties, body)
        receipt = (channel, method.delivery_tag, wire.returned(properties))
        self._arrived.append(
            wire.received(raw, method.routing_key, body, receipt, redelivered=method.redelivered)
        )

    def _cancel(self, _: Any) -> None:
        self._cancelled = True

    def poll(self, most: int, seconds: float) -> list[Delivery]:
        with translated(self._url):
            self._connection.process_data_events(time_limit=0 if self._arrived and most else seconds)
            for channel in (self._channel, self._side):
                if channel.is_closed:  # which pika tells nobody who does not use it
                    raise channel._closing_reason  # noqa: SLF001 - and keeps to itself why
            self._ack_copied(0.0)
        if self._cancelled:
            raise texts.cancelled(self.name)
        return [self._arrived.popleft() for _ in range(min(most, len(self._arrived)))]

    def acknowledge(self, decided: Sequence[Decided]) -> None:
        with translated(self._url):
            is_idle = not self._copies.pending
            self._ack([each.receipt[1] for each, verdict in decided if isinstance(verdict, Ack)])
            self._hand_back([each for each, verdict in decided if verdict is RELEASE])
            for each, verdict in decided:
                if isinstance(verdict, Retry) and verdict is not RELEASE:
                    name, arguments = wire.delay_queue(self.name, verdict.seconds)
                    self._side.queue_declare(name, durable=True, arguments=arguments)
                    copy = wire.again(each, each.message.attempt + verdict.counted)
                    self._copies.add(name, copy, each.receipt[1])
                elif isinstance(verdict, Dead):
                    self._ensure(self._dead)
                    copy = wire.dead_letter(each, verdict.reason, self.name)
                    self._copies.add(self._dead, copy, each.receipt[1])
            self._ack_copied(wire.PATIENCE if is_idle else 0.0)

    def _hand_back(self, untried: list[Delivery]) -> None:
        """At the end, with what was sent ahead; first unsubscribe, or it would come straight back.

        A quorum queue would count each time. One that has counted gets the message anew, without.
        """
        if not untried:
            return
        if self._subscription is not None:
            tag, self._subscription = self._subscription, None
            self._channel.basic_cancel(tag)
        untried += self._arrived
        self._arrived.clear()
        for each in untried:
            _, tag, returned = each.receipt
            if returned:
                self._copies.add(self.name, wire.again(each, each.message.attempt - returned), tag)
            else:
                self._unacknowledged.discard(tag)
                self._channel.basic_nack(tag, requeue=True)

    def _declare(self) -> None:
        """What is there already is left as it is, unless it contradicts."""
        self._ensure(self.name)
        wanted = self._topology
        if wanted.exchange is not None:
            self._side.exchange_declare(wanted.exchange, wanted.exchange_type, durable=True)
            for key in wanted.bindings:
                self._side.queue_bind(self.name, wanted.exchange, key)

    def _ensure(self, queue: str) -> None:
        """Declare it, unless it is there, of whatever kind. To ask for what is not there costs the channel one asks on."""
        if queue in self._there:
            return
        asking = self._connection.channel()
        try:
            asking.queue_declare(queue, passive=True)
        except pika.exceptions.ChannelClosedByBroker as exc:
            if exc.reply_code != _NOT_FOUND:
                raise
            self._side.queue_declare(queue, durable=True, arguments=self._topology.queue_arguments)
        else:
            asking.close()
        self._there.add(queue)

    def _check(self) -> None:
        """Refuse a stream. The broker says of what kind a queue is only when it refuses another declaration of it.

        Once is enough: each refusal is an error in the broker's log.
        """
        arguments: dict[str, Any] = {}
        while not self._is_checked:
            asking = self._connection.channel()
            try:
                asking.queue_declare(self.name, durable=True, arguments=arguments)
            except pika.exceptions.ChannelClosedByBroker as exc:
                if exc.reply_code == _REFUSED:
                    self._check_by_consuming()
                argument, value = wire.different(exc.reply_text)
                if wire.is_streams(argument, value):
                    raise texts.is_stream(self.name) from exc
                # Streams and others have a length, and it is compared before the kind.
                self._is_checked = argument != wire.LENGTH or bool(arguments) or not value.isdigit()
                if not self._is_checked:
                    arguments = {wire.LENGTH: int(value)}
            else:
                asking.close()
                self._is_checked = True

    def _check_by_consuming(self) -> None:
        """The same for a user who may not declare it: a stream and others refuse to be consumed from like this for other reasons."""
        asking = self._connection.channel()
        try:
            asking.basic_consume(self.name, lambda *_: None, arguments=wire.OF_STREAMS)
        except pika.exceptions.ChannelClosedByBroker as exc:
            if wire.wants_prefetch(exc.reply_text):
                raise texts.is_stream(self.name) from exc
        else:
            asking.close()

    def _ack_copied(self, seconds: float) -> None:
        """Acknowledge the originals of what the broker has in another queue; never before.

        Where it confirms nothing for so long, the others go on: copies that wait hold up only each other.
        """
        self._ack(self._copies.confirmed(seconds))
        if seconds and self._copies.pending:
            logger.warning(texts.WAITING, self.name, self._copies.pending)

    def _ack(self, tags: list[int]) -> None:
        """One frame for all, where nothing older is still in work."""
        self._unacknowledged.difference_update(tags)
        if tags and min(self._unacknowledged, default=max(tags) + 1) > max(tags):
            self._channel.basic_ack(max(tags), multiple=True)
            return
        for tag in tags:
            self._channel.basic_ack(tag)

    def keep(self, deliveries: Sequence[Delivery]) -> None:
        """Polling answers the broker's heartbeats."""

    def holds(self, delivery: Delivery) -> bool:
        """A delivery belongs to its channel; on another its number means something else."""
        channel = delivery.receipt[0]
        return self._connection is not None and channel is self._channel and channel.is_open

    def record(self, connection: Any, deliveries: Sequence[Delivery]) -> None:
        """The broker itself knows."""

    def lag(self) -> int | None:
        with translated(self._url):
            return int(self._side.queue_declare(self.name, passive=True).method.message_count)

    def close(self) -> None:
        self._copies.close()
        connection, self._connection = self._connection, None
        if connection is not None and connection.is_open:
            try:
                connection.close()
            except pika.exceptions.AMQPError:
                return  # broken already, which is as good
