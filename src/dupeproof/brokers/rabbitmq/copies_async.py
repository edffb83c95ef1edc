# No twin: aio-pika and pika are two libraries.
"""Retries and dead letters on their way to the broker, on a connection that nothing else uses.

A broker with an alarm stops reading from a connection that has published. What else comes by that connection, as
acknowledgements do, is not heard either. So consumers publish by another one, which may be stopped for as long as it takes.
"""

import asyncio
from collections import deque
from typing import Any

from dupeproof.brokers.rabbitmq import wire
from dupeproof.brokers.rabbitmq.driver_async import aio_pika, connect, disconnect, theirs
from dupeproof.brokers.rabbitmq.properties import Properties
from dupeproof.brokers.rabbitmq.refusals import Copy, Refusals

_CANCEL_SECONDS = 1.0
"""For a publish that is cancelled to end."""


class _Copied(aio_pika.Message):
    """With every header in its type."""

    @property
    def properties(self) -> Properties:
        plain = super().properties
        return Properties(**{name: getattr(plain, name) for name in Properties.flags})


class AsyncCopies:
    """Sent one after the other, each when the one before is confirmed: so at most one is on its way when we are closed.

    Connects when there is something to send.
    """

    def __init__(self, url: str) -> None:
        self._url = url
        self._waiting: deque[Copy] = deque()
        self._refused = Refusals()
        self._confirmed: list[Any] = []
        self._connection: Any = None
        self._task: asyncio.Task[None] | None = None

    @property
    def pending(self) -> int:
        """How many the broker has not confirmed."""
        return len(self._waiting)

    def add(self, queue: str, sent: wire.Sent, original: Any) -> None:
        """The original is to be acknowledged when the broker has the copy."""
        self._waiting.append(Copy(queue, sent, original))

    async def confirmed(self, seconds: float) -> list[Any]:
        """The originals of those the broker has, waiting at most so long for all."""
        self._waiting += self._refused.take_due()
        if self._task is None and self._waiting:
            self._task = asyncio.create_task(self._send())
        if self._task is not None:
            if seconds > 0:
                await asyncio.wait([self._task], timeout=seconds)
            # First those that are through; a fault is there the next time.
            if self._task.done() and (not self._confirmed or not self._waiting):
                task, self._task = self._task, None
                task.result()
        done, self._confirmed = self._confirmed, []
        return done

    async def _send(self) -> None:
        if self._connection is None or self._connection.is_closed:
            self._connection = await connect(self._url)
            self._channel = await self._connection.channel(on_return_raises=True)
        while self._waiting:
            copy = self._waiting[0]
            message = _Copied(copy.sent.body, **copy.sent.properties)
            try:
                await self._channel.default_exchange.publish(message, copy.queue, mandatory=True)
            except theirs.PublishError:
                raise
            except theirs.DeliveryError:
                self._refused.add(self._waiting.popleft())
            else:
                self._waiting.popleft()
                self._confirmed.append(copy.original)

    async def close(self) -> None:
        """What the broker has not confirmed is forgotten; the originals come again. Closing twice is fine."""
        task, self._task = self._task, None
        if task is not None:
            task.cancel()
            await asyncio.wait([task], timeout=_CANCEL_SECONDS)
            if task.done() and not task.cancelled():
                task.exception()  # looked at, or the loop would complain that nobody did
        connection, self._connection = self._connection, None
        self._waiting.clear()
        self._refused.clear()
        self._confirmed.clear()
        await disconnect(connection)
