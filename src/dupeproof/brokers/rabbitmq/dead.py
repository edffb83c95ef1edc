# No twin: pika is for threads, and nobody waits for dead letters in a task.
"""Dead letters in a queue of RabbitMQ, which can be looked at only by taking them out of it for a while.

They are consumed without an acknowledgement, no more at a time than are wanted, and come back to their places when the channel
is closed. On quorum queues that is the only way that keeps their order: what was got one by one comes back in any order, and what
is handed back by name may come after all others. A quorum queue counts each return, too, and removes what has come back too
often, by a limit that a policy may set and no client can ask for. So what has come back once is not returned a second time: it
is published anew to the same queue, which counts from the beginning, and then acknowledged.
"""

import hashlib
import time
from collections import deque
from collections.abc import Iterator, Sequence
from typing import Any

from dupeproof.brokers.base import Delivery
from dupeproof.brokers.dead import DeadLetter, nothing_there, places_of
from dupeproof.brokers.errors import BrokerUnavailable, NotPublished
from dupeproof.brokers.rabbitmq import texts, wire
from dupeproof.brokers.rabbitmq.driver import parameters, pika, translated
from dupeproof.brokers.rabbitmq.pika_headers import Connection, Copied
from dupeproof.core.crashes import armed, reached
from dupeproof.errors import ConfigError

_NOT_FOUND = 404
_MOST_RETURNS = 1
_MOST_RENEWED = 5_000
"""Letters behind those that were renewed, which follow them so that all keep their order. Of more, the order changes."""
_WINDOW = 1_000
"""Letters that one channel holds."""
_QUIET = 0.5
"""Seconds without a message after which the queue is asked whether there are more."""
_LOOK = 0.005
_PATIENCE = 10.0
_HEARTBEAT = 10
"""Seconds: a broker that says nothing for twice as long is given up."""
_DIGITS = 12
_OF_A_STREAM = "x-stream-offset"


class _Window:
    """A channel, and the messages that it holds. It consumes until it has them all, and only then they are worked on: who
    acknowledges while he consumes is sent more.
    """

    def __init__(self, channel: Any, queue: str, size: int) -> None:
        self.channel = channel
        self.size = size
        self.arrived: deque[tuple[Any, Any, bytes]] = deque()
        self._acknowledged = 0
        self._count = 0
        channel.basic_qos(prefetch_count=size)
        self._tag = channel.basic_consume(queue, lambda _, *message: self.arrived.append(message))

    @property
    def is_filled(self) -> bool:
        return len(self.arrived) >= self.size

    def cancel(self) -> None:
        self.channel.basic_cancel(self._tag)
        self._count = len(self.arrived)

    def acknowledge(self, tag: int) -> None:
        self._acknowledged += 1
        self.channel.basic_ack(tag)

    @property
    def held(self) -> int:
        return self._count - self._acknowledged


class RabbitDeadLetters:
    def __init__(self, url: str, queue: str, dead: str | None) -> None:
        self._source, self.name = places_of(queue, dead)
        wire.check_names(self._source, self.name)
        self._url = url
        self._parameters = parameters(url)
        if "heartbeat" not in url:
            self._parameters.heartbeat = _HEARTBEAT
        self._connection: Any = None
        self._left = 0
        """How many of those that were there at first have not been looked at."""
        self._rotating = False
        self._there: set[str] = set()
        self._windows: list[_Window] = []

    def open(self) -> None:
        with translated(self._url):
            self._connection = pika.BlockingConnection(self._parameters, Connection)
            self._left = self._count(self.name)
            if self._left < 0:
                if self._count(self._source) < 0:
                    raise nothing_there("queue", self._source, self.name)
                self._left = 0
            self._rotating = False
            self._there = {self.name}
            self._windows = []
            self._writing = self._connection.channel()
            self._writing.confirm_delivery()

    def _count(self, queue: str) -> int:
        """How many messages wait there; less than none where there is no such queue. To ask may cost the channel."""
        asking = self._connection.channel()
        try:
            count = int(asking.queue_declare(queue, passive=True).method.message_count)
        except pika.exceptions.ChannelClosedByBroker as exc:
            if exc.reply_code != _NOT_FOUND:
                raise
            return -1
        asking.close()
        return count

    def scan(self, most: int) -> Iterator[DeadLetter]:
        """Only as many as there were: what dies meanwhile is behind them, and so is what was published anew."""
        for left in range(min(most, self._left), 0, -1):
            each = self._next(left)
            if each is None:
                return
            yield self._letter(each)

    def _next(self, wanted: int) -> Delivery | None:
        if not self._windows or not self._windows[-1].arrived:
            with translated(self._url):
                self._fill(min(wanted, self._left, _WINDOW))
        window = self._windows[-1]
        if not window.arrived:
            self._left = 0
            return None
        self._left -= 1
        method, properties, body = window.arrived.popleft()
        if _OF_A_STREAM in (properties.headers or {}):
            raise ConfigError(
                f"{self.name!r} is a stream, from which nothing can be taken out; have dead letters go to a quorum queue"
            )
        raw = wire.PikaMessage(method, properties, body)
        receipt = (window, method.delivery_tag)
        return wire.received(raw, method.routing_key, body, receipt, redelivered=method.redelivered)

    def _fill(self, size: int) -> None:
        """Others may have taken some meanwhile. What is on its way to us is no longer counted, so a queue that is empty is waited
        for a little.
        """
        window = _Window(self._connection.channel(), self.name, size)
        self._windows.append(window)
        since = time.monotonic()
        while not window.is_filled:
            known = len(window.arrived)
            self._connection.process_data_events(time_limit=_QUIET)
            now = time.monotonic()
            if len(window.arrived) > known:
                since = now
            elif now - since > _QUIET and self._count(self.name) <= 0:
                break
            elif now - since > _PATIENCE:
                raise BrokerUnavailable(
                    f"RabbitMQ has dead letters in {self.name!r} and does not hand them out; another consumer may be the "
                    "single active one"
                )
        window.cancel()

    def _letter(self, each: Delivery) -> DeadLetter:
        found = wire.death(each.message.raw.properties)
        queue = found.queue or self._source
        sent = wire.revived(each, found)
        raw = wire.PikaMessage(each.message.raw.method, pika.BasicProperties(**sent.properties), sent.body)
        revived = wire.received(raw, queue, sent.body, each.receipt, redelivered=False)
        return DeadLetter(
            place=f"@{_digest(sent)}",
            queue=queue,
            reason=found.reason,
            attempts=found.attempts,
            died=found.died,
            message=revived.message,
            receipt=(each, sent),
        )

    def keep(self, letter: DeadLetter) -> None:
        self._keep(letter.receipt[0])

    def _keep(self, each: Delivery) -> None:
        """Where one is published anew, those behind it follow."""
        if not self._rotating and wire.returned(each.message.raw.properties) < _MOST_RETURNS:
            return
        self._rotating = True
        fault = self._publish(self.name, wire.renewed(each, wire.death(each.message.raw.properties)))
        if fault is not None:
            raise fault
        self._acknowledge(each)

    def put_back(self, letters: Sequence[DeadLetter]) -> list[NotPublished | None]:
        return [self._put_back(letter) for letter in letters]

    def _put_back(self, letter: DeadLetter) -> NotPublished | None:
        each, sent = letter.receipt
        fault = self._publish(letter.queue or self._source, sent)
        if fault is None:
            if armed:
                reached("after-publish-before-removal")
            self._acknowledge(each)
        return fault

    def remove(self, letters: Sequence[DeadLetter]) -> list[NotPublished | None]:
        for letter in letters:
            self._acknowledge(letter.receipt[0])
        return [None] * len(letters)

    def _publish(self, queue: str, sent: wire.Sent) -> NotPublished | None:
        """Into that queue and no other, confirmed. Asked for first: what is returned, pika logs with its headers and body."""
        with translated(self._url):
            try:
                if queue not in self._there and self._count(queue) < 0:
                    return texts.unroutable(queue, "")
                self._there.add(queue)
                self._writing.basic_publish("", queue, sent.body, Copied(**sent.properties), mandatory=True)
            except pika.exceptions.UnroutableError:
                return texts.unroutable(queue, "")
            except pika.exceptions.NackError:
                return texts.refused(queue)
        return None

    def _acknowledge(self, each: Delivery) -> None:
        window, tag = each.receipt
        with translated(self._url):
            window.acknowledge(tag)

    def finish(self) -> None:
        if self._rotating and self._left <= _MOST_RENEWED:
            while self._left > 0 and (each := self._next(self._left)) is not None:
                self._keep(each)
        with translated(self._url):
            self._return()

    def _return(self) -> None:
        """One channel after the other, or they would overtake each other; and all before the next command looks, which would find
        them in part. Where others take what came back, nobody waits long.
        """
        give_up = time.monotonic() + _PATIENCE
        for window in self._windows:
            before = self._count(self.name)
            window.channel.close()
            while self._count(self.name) < before + window.held and time.monotonic() < give_up:
                self._connection.sleep(_LOOK)

    def close(self) -> None:
        """What was not acknowledged comes back to its place."""
        connection, self._connection = self._connection, None
        self._windows.clear()
        if connection is not None and connection.is_open:
            try:
                connection.close()
            except pika.exceptions.AMQPError:
                return  # broken already, which is as good


def _digest(sent: wire.Sent) -> str:
    """The same at every look, also when it was published anew."""
    known = repr(sorted((name, value) for name, value in sent.properties.items() if name != "headers"))
    headers = repr(sorted((name, repr(value)) for name, value in sent.properties["headers"].items()))
    return hashlib.sha256(b"\0".join([known.encode(), headers.encode(), sent.body])).hexdigest()[:_DIGITS]
