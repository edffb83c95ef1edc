"""A broker for those who have none: messages go to each consumer through a pipe, and come again when it dies.

A key belongs to one consumer, and what a dead one had not acknowledged is the first that its successor gets: so the order
of a key is kept, as by a partition.
"""

import asyncio
import contextlib
import json
import threading
from collections import deque
from collections.abc import Sequence
from typing import IO, Any
from zlib import crc32

from dupeproof.brokers.base import Ack, Dead, Decided, Delivery, Features, Message
from dupeproof.outbox.messages import Message as Outgoing
from dupeproof_lab.torture.link import Link

IN_FLIGHT = 200


class Pipe:
    """The coordinator's end: what waits for one consumer, and what is with it."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._waiting: deque[dict[str, Any]] = deque()
        self._with_it: dict[int, dict[str, Any]] = {}
        self._number = 0
        self._stdin: IO[bytes] | None = None

    def put(self, messages: Sequence[dict[str, Any]]) -> None:
        with self._lock:
            self._waiting.extend(messages)
        self._pump()

    def attach(self, stdin: IO[bytes]) -> None:
        """A new consumer: all that its predecessor left comes first, in its order."""
        with self._lock:
            self._waiting.extendleft(reversed([*self._with_it.values()]))
            self._with_it.clear()
            self._stdin = stdin
        self._pump()

    def detach(self) -> None:
        with self._lock:
            self._stdin = None

    def acknowledge(self, numbers: Sequence[int]) -> None:
        with self._lock:
            for number in numbers:
                self._with_it.pop(number, None)
        self._pump()

    @property
    def is_empty(self) -> bool:
        return not self._waiting and not self._with_it

    def _pump(self) -> None:
        with self._lock:
            lines = []
            while self._stdin is not None and self._waiting and len(self._with_it) < IN_FLIGHT:
                message = self._waiting.popleft()
                self._number += 1
                self._with_it[self._number] = message
                lines.append(json.dumps(message | {"number": self._number}).encode() + b"\n")
            if lines and self._stdin is not None:
                with contextlib.suppress(OSError):  # it is dead: its successor gets them
                    self._stdin.write(b"".join(lines))
                    self._stdin.flush()


class PipeBroker:
    """Publishes to the pipes of all consumers, by key."""

    def __init__(self, consumers: int) -> None:
        self.pipes = [Pipe() for _ in range(consumers)]

    def publish(self, messages: Sequence[Outgoing]) -> list[Exception | None]:
        for place, pipe in enumerate(self.pipes):
            pipe.put(
                [
                    {
                        "id": each.id,
                        "key": each.key,
                        "body": each.payload.decode(),
                        "topic": each.topic,
                        "headers": each.headers,
                    }
                    for each in messages
                    if crc32((each.key or each.id).encode()) % len(self.pipes) == place
                ]
            )
        return [None] * len(messages)

    @property
    def is_empty(self) -> bool:
        return all(pipe.is_empty for pipe in self.pipes)

    def close(self) -> None:
        """The consumers are ended by those who started them."""


class PipePublisher:
    """The relay's end: what it publishes is with the coordinator when that has said so."""

    def __init__(self, link: Link) -> None:
        self._link = link
        self._number = 0

    def publish(self, messages: Sequence[Outgoing]) -> list[Exception | None]:
        self._number += 1
        fields = [
            {name: getattr(each, name) for name in ("id", "topic", "key", "headers")}
            | {"payload": each.payload.decode()}
            for each in messages
        ]
        self._link.say({"publish": fields, "number": self._number})
        while not any(word["confirmed"] == self._number for word in self._link.heard(1, 60.0)):
            continue
        return [None] * len(messages)


class PipeSource:
    """The consumer's end."""

    features = Features(delays=False)
    name = "pipe"

    def __init__(self, link: Link) -> None:
        self._link = link

    def open(self, most: int) -> None:
        """The pipe is there from the beginning."""

    def poll(self, most: int, seconds: float) -> list[Delivery]:
        return [_delivery(word) for word in self._link.heard(most, seconds)]

    def acknowledge(self, decided: Sequence[Decided]) -> None:
        """What is dead-lettered stays there: the handler has had its tries."""
        numbers = [delivery.receipt for delivery, verdict in decided if isinstance(verdict, Ack | Dead)]
        self._link.say({"acknowledged": numbers})

    def keep(self, deliveries: Sequence[Delivery]) -> None:
        """Nobody asks for a sign of life."""

    def holds(self, _: Delivery) -> bool:
        return True

    def record(self, connection: Any, deliveries: Sequence[Delivery]) -> None:
        """The coordinator knows how far we are."""

    def lag(self) -> int | None:
        """The coordinator does not tell."""
        return None

    def close(self) -> None:
        """It ends with the process."""


class AsyncPipeSource:
    """The same for tasks: only waiting takes long, so a thread does that."""

    features = PipeSource.features
    name = PipeSource.name

    def __init__(self, link: Link) -> None:
        self._source = PipeSource(link)

    async def open(self, most: int) -> None:
        self._source.open(most)

    async def poll(self, most: int, seconds: float) -> list[Delivery]:
        return await asyncio.to_thread(self._source.poll, most, seconds)

    async def acknowledge(self, decided: Sequence[Decided]) -> None:
        self._source.acknowledge(decided)

    async def keep(self, deliveries: Sequence[Delivery]) -> None:
        self._source.keep(deliveries)

    def holds(self, delivery: Delivery) -> bool:
        return self._source.holds(delivery)

    async def record(self, connection: Any, deliveries: Sequence[Delivery]) -> None:
        self._source.record(connection, deliveries)

    async def lag(self) -> int | None:
        return self._source.lag()

    async def close(self) -> None:
        self._source.close()


def _delivery(fields: dict[str, Any]) -> Delivery:
    message = Message(
        id=fields["id"],
        body=fields["body"].encode(),
        headers=fields["headers"],
        topic=fields["topic"],
        key=fields["key"],
    )
    return Delivery(message, fields["number"], partition_key=message.key)
