# No twin: pika and aio-pika are two libraries.
"""Retries and dead letters on their way to the broker, on a connection that nothing else uses.

A broker with an alarm stops reading from a connection that has published. What else comes by that connection, as
acknowledgements do, is not heard either. So consumers publish by another one, which may be stopped for as long as it takes.
"""

import time
from collections import deque
from typing import Any

from dupeproof.brokers.rabbitmq import texts, wire
from dupeproof.brokers.rabbitmq.driver import pika
from dupeproof.brokers.rabbitmq.pika_headers import Copied
from dupeproof.brokers.rabbitmq.refusals import Copy, Refusals

_GOODBYE = 1.0
"""Seconds for the broker to answer when we close a connection that it reads from."""


class Copies:
    """Sent one after the other, each when the one before is confirmed: so at most one is on its way when we are closed.

    Connects when there is something to send. The loop of its connection runs while its owner waits in `confirmed`.
    """

    def __init__(self, parameters: Any) -> None:
        self._parameters = parameters
        self._waiting: deque[Copy] = deque()
        self._refused = Refusals()
        self._confirmed: list[int] = []
        self._connection: Any = None
        self._channel: Any = None
        self._sent = False
        self._blocked = False
        self._fault: BaseException | None = None

    @property
    def pending(self) -> int:
        """How many the broker has not confirmed."""
        return len(self._waiting)

    def add(self, queue: str, sent: wire.Sent, tag: int) -> None:
        """`tag` is that of the original, to be acknowledged when the broker has the copy."""
        self._waiting.append(Copy(queue, sent, tag))

    def confirmed(self, seconds: float) -> list[int]:
        """The tags of those the broker has, waiting at most so long for all. Also keeps the connection alive."""
        self._waiting += self._refused.take_due()
        if self._fault is not None and not self._waiting and not self._refused:
            self.close()  # it was lost while nobody needed it
        if self._connection is None and self._waiting:
            self._connection = pika.SelectConnection(
                self._parameters, self._opened, self._broken, self._broken
            )
        if self._connection is not None:
            self._work(seconds)
        done, self._confirmed = self._confirmed, []
        return done

    def _work(self, seconds: float) -> None:
        deadline = time.monotonic() + seconds
        while True:
            self._turn(min(1.0, deadline - time.monotonic()) if self._waiting else 0.0)
            if self._fault is not None and self._waiting:
                if self._confirmed:
                    return  # first those that are through; the fault is there the next time
                raise self._fault
            if not self._waiting or time.monotonic() >= deadline:
                return

    def _turn(self, seconds: float) -> None:
        self._send()
        loop = self._connection.ioloop
        loop.activate_poller()
        wake = loop.call_later(max(0.0, seconds), lambda: None)
        try:
            loop.poll()
            loop.process_timeouts()
        finally:
            loop.remove_timeout(wake)
            loop.deactivate_poller()

    def _send(self) -> None:
        if self._channel is None or self._sent or self._blocked or self._fault is not None:
            return
        if not self._waiting:
            return
        copy = self._waiting[0]
        self._sent = True
        properties = Copied(**copy.sent.properties)
        self._channel.basic_publish("", copy.queue, copy.sent.body, properties, mandatory=True)

    def _opened(self, connection: Any) -> None:
        connection.add_on_connection_blocked_callback(lambda *_: self._block(on=True))
        connection.add_on_connection_unblocked_callback(lambda *_: self._block(on=False))
        connection.channel(on_open_callback=self._channel_opened)

    def _block(self, *, on: bool) -> None:
        self._blocked = on

    def _channel_opened(self, channel: Any) -> None:
        channel.add_on_close_callback(self._broken)
        channel.add_on_return_callback(lambda *_: self._broken(None, texts.not_taken()))
        channel.confirm_delivery(self._answered, callback=lambda _: self._ready(channel))

    def _ready(self, channel: Any) -> None:
        self._channel = channel

    def _broken(self, _: Any, reason: BaseException) -> None:
        if self._fault is None:
            self._fault = reason

    def _answered(self, frame: Any) -> None:
        if self._fault is None and isinstance(frame.method, pika.spec.Basic.Nack):
            self._refused.add(self._waiting.popleft())
            self._sent = False
        elif self._fault is None:  # what no queue got comes back first, and is confirmed then
            self._confirmed.append(self._waiting.popleft().original)
            self._sent = False

    def close(self) -> None:
        """What the broker has not confirmed is forgotten; the originals come again. Closing twice is fine."""
        connection, stuck = self._connection, self._sent
        try:
            if connection is not None:
                self._leave(connection, stuck=stuck)
        finally:
            self._connection = self._channel = self._fault = None
            self._sent = self._blocked = False
            self._waiting.clear()
            self._refused.clear()
            self._confirmed.clear()

    def _leave(self, connection: Any, *, stuck: bool) -> None:
        """A broker that does not read would not hear a goodbye, and we would wait for its answer."""
        try:
            if stuck or not connection.is_open:
                if not connection.is_closed:
                    connection._terminate_stream(pika.exceptions.StreamLostError())  # noqa: SLF001 - nothing public hangs up
            else:
                connection.close()
            deadline = time.monotonic() + _GOODBYE
            while not connection.is_closed and time.monotonic() < deadline:
                self._waiting.clear()
                self._turn(0.05)
        except pika.exceptions.AMQPError:
            return  # broken already, which is as good
        finally:
            connection.ioloop.close()
