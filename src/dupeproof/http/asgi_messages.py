"""Both directions of an ASGI exchange: the request body, read before the handler, and its response, held back."""

import asyncio
from collections.abc import Awaitable, Callable, Iterable, Iterator, MutableMapping
from copy import copy
from typing import Any

from dupeproof.http._async.exchange import AsyncExchange
from dupeproof.http.answers import Answer
from dupeproof.http.bodies import Body, check_size
from dupeproof.http.keeping import can_be_kept
from dupeproof.http.statuses import Fate

Message = MutableMapping[str, Any]
Receive = Callable[[], Awaitable[Message]]
Send = Callable[[Message], Awaitable[None]]


class Disconnected(BaseException):
    """The client left before its request, or the handler before its response, was complete."""


class Inlet:
    """The `receive` of the app: the body that was read already, and after it whatever the server says."""

    __slots__ = ("_hides_disconnect", "_left", "_limit", "_receive", "_spooled", "_whole")

    def __init__(self, receive: Receive, limit: int, *, hides_disconnect: bool) -> None:
        self._receive = receive
        self._limit = limit
        self._hides_disconnect = hides_disconnect
        self._whole: bytes | None = b""
        """The body, when it came in one piece, as nearly all do."""
        self._spooled: Body | None = None
        self._left: Iterator[bytes] | None = None

    def take(self, message: Message) -> bool:
        """The first piece of the body; whether it was the only one."""
        first = _request(message).get("body", b"")
        check_size(len(first), self._limit)
        if not message.get("more_body", False):
            self._whole = first
            return True
        self._whole = None
        self._spooled = Body(self._limit)
        self._spooled.add(first)
        return False

    async def read_on(self) -> None:
        """The other pieces."""
        assert self._spooled is not None
        more = True
        while more:
            message = _request(await self._receive())
            self._spooled.add(message.get("body", b""))
            more = message.get("more_body", False)

    def chunks(self) -> Iterable[bytes]:
        if self._spooled is not None:
            return self._spooled
        return () if self._whole is None else (self._whole,)

    async def __call__(self) -> Message:
        if self._whole is not None:
            body, self._whole = self._whole, None
            return {"type": "http.request", "body": body, "more_body": False}
        if self._spooled is not None:
            if self._left is None:
                self._left = iter(self._spooled)
            chunk = next(self._left, None)
            if chunk is not None:
                return {"type": "http.request", "body": chunk, "more_body": True}
            self.close()
            return {"type": "http.request", "body": b"", "more_body": False}
        if self._hides_disconnect:
            await asyncio.Event().wait()
        return await self._receive()

    def moved(self) -> "Inlet":
        """For someone else to close."""
        moved = copy(self)
        self._spooled = None
        return moved

    def close(self) -> None:
        if self._spooled is not None:
            self._spooled.close()
            self._spooled = None


def _request(message: Message) -> Message:
    if message["type"] != "http.request":
        raise Disconnected
    return message


class Outlet:
    """The `send` of the app: keeps the response until it is whole, settles the key, then lets it go.

    What cannot be kept, a stream or what is too large, is settled as done before its first byte goes out.
    """

    __slots__ = ("_chunks", "_exchange", "_limit", "_passing", "_send", "_size", "_start")

    def __init__(self, exchange: AsyncExchange, send: Send, limit: int) -> None:
        self._exchange = exchange
        self._send = send
        self._limit = limit
        self._start: Message | None = None
        self._chunks: list[bytes] = []
        self._size = 0
        self._passing = False
        """The handler speaks to the client directly."""

    def __call__(self, message: Message) -> Awaitable[None]:
        kind = message["type"]
        if self._passing:
            return self._hand_on(message)
        if kind == "http.response.start":
            self._start = message
            return _nothing()
        if kind == "http.response.body" and self._start is not None:
            return self._take(self._start, message)
        return self._send(message)

    async def _take(self, start: Message, message: Message) -> None:
        body = message.get("body", b"")
        last = not message.get("more_body", False)
        kept = self._keep(start, body, last=last)
        if kept and not last:
            return
        if len(self._chunks) > 1:
            body = b"".join(self._chunks)
            message = {**message, "body": body}
        self._passing = True
        exchange = self._exchange
        if exchange.handling.done is not None and last:
            await send_answer(self._send, await exchange.repeat(exchange.handling.done))
            return
        # What will not be stored may not be given back while its handler still runs.
        if last or exchange.fate(start["status"]) is Fate.STORE:
            headers = start.get("headers", ())
            added = await exchange.settle(start["status"], headers, body if kept else None)
            if added:
                start = {**start, "headers": [*headers, *added]}
        await self._send(start)
        await self._send(message)

    def _keep(self, start: Message, body: bytes, *, last: bool) -> bool:
        """Whether the response can be kept, as far as it is known."""
        if not self._chunks and (
            start.get("trailers", False)
            or not can_be_kept(start["status"], start.get("headers", ()), self._limit, goes_on=not last)
        ):
            return False
        self._chunks.append(body)
        self._size += len(body)
        return self._size <= self._limit

    async def _hand_on(self, message: Message) -> None:
        ends = message["type"] == "http.response.body" and not message.get("more_body", False)
        if ends and self._start is not None and not self._exchange.settled:
            await self._exchange.settle(self._start["status"], (), None)
        await self._send(message)


async def _nothing() -> None:
    """The start of a response is kept, and nobody waits for it."""


async def send_answer(send: Send, answer: Answer) -> None:
    await send({"type": "http.response.start", "status": answer.status, "headers": answer.headers})
    await send({"type": "http.response.body", "body": answer.body})
