# No twin: aio-pika and pika are two libraries.
"""Messages out of a RabbitMQ queue."""

import asyncio
from collections import deque
from collections.abc import Sequence
from typing import Any

from dupeproof.brokers.base import RELEASE, Ack, Dead, Decided, Delivery, Features, Retry, dead_name
from dupeproof.brokers.rabbitmq import texts, wire
from dupeproof.brokers.rabbitmq.copies_async import AsyncCopies
from dupeproof.brokers.rabbitmq.driver_async import (
    check_url,
    connect,
    disconnect,
    meaning,
    theirs,
    translated,
)
from dupeproof.brokers.rabbitmq.topology import Topology
from dupeproof.core.events import logger


class AsyncRabbitSource:
    """Acknowledges by hand; messages that are to come again wait in a queue of ours, and return from there.

    Publishes nothing by the connection it consumes from, so that the broker always reads what comes by it.
    """

    features = Features(delays=True)

    def __init__(
        self, url: str, queue: str, *, topology: Topology, dead: str | None, prefetch: int | None
    ) -> None:
        self.name = queue
        self._url = check_url(url)
        self._topology = topology
        self._dead = dead_name(queue) if dead is None else dead
        wire.check_names(queue, self._dead)
        self._prefetch = prefetch
        self._connection: Any = None
        self._copies = AsyncCopies(url)
        self._channel: Any = None
        self._arrived: deque[Delivery] = deque()
        self._unacknowledged: set[int] = set()
        self._there: set[str] = set()
        self._is_checked = False
        self._fault: BaseException | None = None
        self._subscription: str | None = None

    async def open(self, most: int) -> None:
        with translated(self._url):
            self._arrived.clear()
            self._unacknowledged.clear()
            self._there.clear()
            self._fault = None
            self._news = asyncio.Event()  # of the loop that runs now
            self._connection = await connect(self._url)
            self._connection.close_callbacks.add(self._closed)
            self._channel = channel = await self._connection.channel(on_return_raises=True)
            self._side = await self._connection.channel()
            channel.close_callbacks.add(self._closed)
            await channel.set_qos(prefetch_count=min(65_535, self._prefetch or most))
            if self._topology.create:
                await self._declare()
            self._queue = await channel.declare_queue(self.name, passive=True)
            await self._check()

            async def arrive(message: Any) -> None:
                self._unacknowledged.add(message.delivery_tag)
                receipt = (channel, message, wire.returned(message))
                self._arrived.append(
                    wire.received(
                        message,
                        message.routing_key or "",
                        message.body,
                        receipt,
                        redelivered=message.redelivered,
                    )
                )
                self._news.set()

            self._consumers = (await channel.get_underlay_channel()).consumers
            self._subscription = await self._queue.consume(arrive)

    def _closed(self, _: Any, exc: BaseException | None) -> None:
        if self._fault is None:
            self._fault = texts.gone("without a reason") if exc is None else exc
            self._news.set()

    def _look(self) -> None:
        """The driver forgets a subscription that the broker has ended; not every version reports it."""
        if (
            self._fault is None
            and self._subscription is not None
            and self._subscription not in self._consumers
        ):
            self._fault = texts.cancelled(self.name)

    async def poll(self, most: int, seconds: float) -> list[Delivery]:
        with translated(self._url):
            await self._ack_copied(0.0)
        self._look()
        if self._fault is None and seconds > 0 and not self._arrived:
            self._news.clear()
            try:
                async with asyncio.timeout(seconds):
                    await self._news.wait()
            except TimeoutError:
                return []
        elif seconds == 0:
            await asyncio.sleep(0)
        if self._fault is not None:
            raise meaning(self._fault, self._url) from self._fault
        return [self._arrived.popleft() for _ in range(min(most, len(self._arrived)))]

    async def acknowledge(self, decided: Sequence[Decided]) -> None:
        with translated(self._url):
            is_idle = not self._copies.pending
            await self._ack([each.receipt[1] for each, verdict in decided if isinstance(verdict, Ack)])
            await self._hand_back([each for each, verdict in decided if verdict is RELEASE])
            for each, verdict in decided:
                if isinstance(verdict, Retry) and verdict is not RELEASE:
                    name, arguments = wire.delay_queue(self.name, verdict.seconds)
                    await self._side.declare_queue(name, durable=True, arguments=arguments)
                    copy = wire.again(each, each.message.attempt + verdict.counted)
                    self._copies.add(name, copy, each.receipt[1])
                elif isinstance(verdict, Dead):
                    await self._ensure(self._dead)
                    copy = wire.dead_letter(each, verdict.reason, self.name)
                    self._copies.add(self._dead, copy, each.receipt[1])
            await self._ack_copied(wire.PATIENCE if is_idle else 0.0)

    async def _hand_back(self, untried: list[Delivery]) -> None:
        """At the end, with what was sent ahead; first unsubscribe, or it would come straight back.

        A quorum queue would count each time. One that has counted gets the message anew, without.
        """
        if not untried:
            return
        if self._subscription is not None:
            tag, self._subscription = self._subscription, None
            await self._queue.cancel(tag)
        untried += self._arrived
        self._arrived.clear()
        for each in untried:
            _, message, returned = each.receipt
            if returned:
                self._copies.add(self.name, wire.again(each, each.message.attempt - returned), message)
            else:
                self._unacknowledged.discard(message.delivery_tag)
                await message.nack(requeue=True)

    async def _declare(self) -> None:
        """What is there already is left as it is, unless it contradicts."""
        await self._ensure(self.name)
        wanted = self._topology
        if wanted.exchange is not None:
            await self._side.declare_exchange(wanted.exchange, wanted.exchange_type, durable=True)
            queue = await self._side.get_queue(self.name, ensure=False)
            for key in wanted.bindings:
                await queue.bind(wanted.exchange, key)

    async def _ensure(self, queue: str) -> None:
        """Declare it, unless it is there, of whatever kind. To ask for what is not there costs the channel one asks on."""
        if queue in self._there:
            return
        asking = await self._connection.channel()
        try:
            await asking.declare_queue(queue, passive=True)
        except theirs.ChannelNotFoundEntity:
            await self._side.declare_queue(queue, durable=True, arguments=self._topology.queue_arguments)
        else:
            await asking.close()
        self._there.add(queue)

    async def _check(self) -> None:
        """Refuse a stream. The broker says of what kind a queue is only when it refuses another declaration of it.

        Once is enough: each refusal is an error in the broker's log.
        """
        arguments: dict[str, Any] = {}
        while not self._is_checked:
            asking = await self._connection.channel()
            try:
                await asking.declare_queue(self.name, durable=True, arguments=arguments)
            except theirs.AMQPChannelError as exc:
                if isinstance(exc, theirs.ChannelAccessRefused):
                    await self._check_by_consuming()
                argument, value = wire.different(str(exc))
                if wire.is_streams(argument, value):
                    raise texts.is_stream(self.name) from exc
                # Streams and others have a length, and it is compared before the kind.
                self._is_checked = argument != wire.LENGTH or bool(arguments) or not value.isdigit()
                if not self._is_checked:
                    arguments = {wire.LENGTH: int(value)}
            else:
                await asking.close()
                self._is_checked = True

    async def _check_by_consuming(self) -> None:
        """The same for a user who may not declare it: a stream and others refuse to be consumed from like this for other reasons."""
        asking = await self._connection.channel()
        queue = await asking.get_queue(self.name, ensure=False)

        async def ignore(_: Any) -> None:
            """Nothing comes by a consumer that is refused."""

        try:
            await queue.consume(ignore, arguments=wire.OF_STREAMS)
        except theirs.AMQPChannelError as exc:
            if wire.wants_prefetch(str(exc)):
                raise texts.is_stream(self.name) from exc
        else:
            await asking.close()

    async def _ack_copied(self, seconds: float) -> None:
        """Acknowledge the originals of what the broker has in another queue; never before.

        Where it confirms nothing for so long, the others go on: copies that wait hold up only each other.
        """
        await self._ack(await self._copies.confirmed(seconds))
        if seconds and self._copies.pending:
            logger.warning(texts.WAITING, self.name, self._copies.pending)

    async def _ack(self, messages: list[Any]) -> None:
        """One frame for all, where nothing older is still in work."""
        self._unacknowledged.difference_update(message.delivery_tag for message in messages)
        if not messages:
            return
        last = max(messages, key=lambda message: message.delivery_tag)
        if min(self._unacknowledged, default=last.delivery_tag + 1) > last.delivery_tag:
            await last.ack(multiple=True)
            return
        for message in messages:
            await message.ack()

    async def keep(self, deliveries: Sequence[Delivery]) -> None:
        """The driver answers the broker's heartbeats."""

    def holds(self, delivery: Delivery) -> bool:
        """A delivery belongs to its channel; on another its number means something else."""
        channel = delivery.receipt[0]
        return self._connection is not None and channel is self._channel and not channel.is_closed

    async def record(self, connection: Any, deliveries: Sequence[Delivery]) -> None:
        """The broker itself knows."""

    async def lag(self) -> int | None:
        with translated(self._url):
            found = await self._side.declare_queue(self.name, passive=True)
        return int(found.declaration_result.message_count or 0)

    async def close(self) -> None:
        await self._copies.close()
        connection, self._connection = self._connection, None
        await disconnect(connection)
