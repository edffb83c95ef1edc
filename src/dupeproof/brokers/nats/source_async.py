# No twin: nats-py is for tasks only.
"""Messages out of a JetStream stream, through a durable consumer.

A message is acknowledged twice: the server confirms that it has heard us. One in work is kept by signs of life, a third
of `ack_wait` apart; one that gets none comes again, and the server counts. Deliveries that are no attempt are taken off.
"""

import asyncio
from collections.abc import Sequence
from typing import Any

from nats.js.api import AckPolicy, ConsumerConfig, StreamConfig

from dupeproof.brokers.base import Ack, Dead, Decided, Delivery, Features, Retry
from dupeproof.brokers.errors import BrokerUnavailable, NotDeadLettered
from dupeproof.brokers.nats import wire
from dupeproof.brokers.nats.allowances_async import Allowances
from dupeproof.brokers.nats.driver_async import (
    TIMEOUT,
    check_url,
    connect,
    leave,
    refusal,
    streams,
    translated,
)
from dupeproof.errors import ConfigError

_SHORTEST = 0.01
"""Seconds: a request for messages needs some time to be answered."""


def _number(each: Delivery) -> int:
    return int(each.receipt[1].metadata.sequence.stream)


class AsyncNatsSource:
    def __init__(
        self, url: str, subject: str, group: str, *, create: bool, ack_wait: float, dead: str | None
    ) -> None:
        self.features = Features(delays=True, keep_alive=ack_wait / 3)
        self.name = subject
        self._url = check_url(url)
        self._dead = wire.dead_subject(subject, dead)
        self._durable = wire.plain_name(f"{group}-{subject}")
        self._create = create
        self._ack_wait = ack_wait
        self._client: Any = None

    async def open(self, most: int) -> None:  # noqa: ARG002 - nothing is sent ahead
        with translated(self._url, self.name, lambda: self._client):
            self._client = await connect(self._url)
            self._streams = self._client.jetstream(timeout=TIMEOUT)
            stream = await self._stream(self.name, create=self._create)
            try:
                known = await self._streams.consumer_info(stream, self._durable)
            except streams.NotFoundError:
                wanted = ConsumerConfig(
                    durable_name=self._durable,
                    ack_policy=AckPolicy.EXPLICIT,
                    ack_wait=self._ack_wait,
                    filter_subject=self.name,
                )
                known = await self._streams.add_consumer(stream, wanted)
            self._check(known.config)
            # Another consumer of the group may have made it with another time, and that is what counts.
            self.features = Features(delays=True, keep_alive=known.config.ack_wait / 3)
            self._allowances = Allowances(self._streams, self._durable)
            self._subscription = await self._streams.pull_subscribe_bind(self._durable, stream)

    def _check(self, config: ConsumerConfig) -> None:
        if config.max_deliver is not None and config.max_deliver > 0:
            raise ConfigError(
                f"the durable consumer {self._durable!r} has max_deliver {config.max_deliver}: after so many deliveries, "
                "counting those that were no attempt, the server would bring a message no more and tell nobody; "
                "set max_deliver to -1, and use max_attempts"
            )

    async def _stream(self, subject: str, *, create: bool) -> str:
        try:
            return str(await self._streams.find_stream_name_by_subject(subject))
        except streams.NotFoundError:
            if not create:
                raise
        name = wire.plain_name(subject)
        await self._streams.add_stream(StreamConfig(name=name, subjects=[subject]))
        return name

    async def poll(self, most: int, seconds: float) -> list[Delivery]:
        with translated(self._url, self.name, lambda: self._client):
            if not self._client.is_connected:
                raise BrokerUnavailable("NATS closed the connection")
            if most == 0:
                await asyncio.sleep(0)
                return []
            try:
                messages = await self._subscription.fetch(most, timeout=max(seconds, _SHORTEST))
            except TimeoutError:  # the driver raises its own, and in places the plain one
                return []
            again = [message.metadata for message in messages if message.metadata.num_delivered > 1]
            allowed = await self._allowances.find([each.sequence.stream for each in again])
        return [
            self._received(message, allowed.get(message.metadata.sequence.stream, 0)) for message in messages
        ]

    def _received(self, message: Any, uncounted: int) -> Delivery:
        return wire.received(message, (self._client, message, uncounted), uncounted)

    async def acknowledge(self, decided: Sequence[Decided]) -> None:
        with translated(self._url, self.name, lambda: self._client):
            await self._ack([each for each, verdict in decided if isinstance(verdict, Ack)])
            untried = [
                each for each, verdict in decided if isinstance(verdict, Retry) and not verdict.counted
            ]
            if untried:
                await self._allowances.write((_number(each), each.receipt[2] + 1) for each in untried)
            for each, verdict in decided:
                if isinstance(verdict, Retry):
                    await each.receipt[1].nak(delay=verdict.seconds or None)
                elif isinstance(verdict, Dead):
                    await self._bury(each, verdict.reason)
                    await self._ack([each])
            await self._client.flush(timeout=round(TIMEOUT))

    async def _ack(self, done: Sequence[Delivery]) -> None:
        await asyncio.gather(*(each.receipt[1].ack_sync(timeout=TIMEOUT) for each in done))

    async def _bury(self, each: Delivery, reason: str) -> None:
        """Into a stream of its own, which confirms it, before the original is acknowledged."""
        headers = wire.dead_letter(each, reason, self.name, self._client.max_payload)
        try:
            await self._stream(self._dead, create=True)
            await self._streams.publish(self._dead, each.message.body, headers=headers, timeout=TIMEOUT)
        except streams.APIError as exc:
            refused = refusal(exc, self._dead)
            if refused is None:
                raise
            raise NotDeadLettered(str(refused), reason=refused.reason) from exc

    async def keep(self, deliveries: Sequence[Delivery]) -> None:
        with translated(self._url, self.name, lambda: self._client):
            for each in deliveries:
                await each.receipt[1].in_progress()

    def holds(self, delivery: Delivery) -> bool:
        """A message is answered on the connection it came by."""
        return self._client is not None and delivery.receipt[0] is self._client

    async def record(self, connection: Any, deliveries: Sequence[Delivery]) -> None:
        """The broker itself knows."""

    async def lag(self) -> int | None:
        with translated(self._url, self.name, lambda: self._client):
            return int((await self._subscription.consumer_info()).num_pending)

    async def close(self) -> None:
        client, self._client = self._client, None
        if client is not None and not client.is_closed:
            await leave(client)
