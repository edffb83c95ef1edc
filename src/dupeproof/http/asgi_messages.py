"""Both directions of an ASGI exchange: the request body, read before the handler, and its response, held back."""

import asyncio
from collections.abc import Awaitable, Callable, Coroutine, Iterable, Iterator, MutableMapping
from copy import copy
from typing import Any, TypeVar

from dupeproof.http._async.exchange import AsyncExchange
from dupeproof.http.answers import Answer
from dupeproof.http.bodies import Body, announced_size, check_size
from dupeproof.http.keeping import can_be_kept
from dupeproof.http.statuses import Fate

Message = MutableMapping[str, Any]
Receive = Callable[[], Awaitable[Message]]
Send = Callable[[Message], Awaitable[None]]


_detached: set[asyncio.Task[Any]] = set()
"""The loop itself keeps only weak references to its tasks."""
T = TypeVar("T")


async def detached(work: Coroutine[Any, Any, T]) -> T:
    """The value of the work, which comes to its end although who waits for it is cancelled."""
    task = asyncio.ensure_future(work)
    _detached.add(task)
    task.add_done_callback(_detached.discard)
    return await asyncio.shield(task)


class Disconnected(BaseException):
    """The client left before its request, or the handler before its response, was complete."""


class Inlet:
    """The `receive` of the app: the body that was read already, and after it whatever the server says."""

    def __init__(self, receive: Receive, limit: int, *, hides_disconnect: bool) -> None:
        self._receive = receive
        self._limit = limit
        self._hides_disconnect = hides_disconnect
        self._whole: bytes | None = b""
        """The body, when it came in one piece, as nearly all do."""
        self._spooled: Body | None = None
        self._left: Iterator[bytes] | None = None

    async def read(self, content_length: str) -> None:
        announced_size(content_length, self._limit)
        message = await self._next()
        first = message.get("body", b"")
        check_size(len(first), self._limit)
        self._whole = first
        if not message.get("more_body", False):
            return
        self._whole = None
        self._spooled = body = Body(self._limit)
        body.add(first)
        while message.get("more_body", False):
            message = await self._next()
            body.add(message.get("body", b""))

    async def _next(self) -> Message:
        message = await self._receive()
        if message["type"] != "http.request":
            raise Disconnected
        return message

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


class Outlet:
    """The `send` of the app: keeps the response until it is whole, settles the key, then lets it go.

    What cannot be kept, a stream or what is too large, is settled as done before its first byte goes out.
    """

    def __init__(self, exchange: AsyncExchange, send: Send, limit: int) -> None:
        self._exchange = exchange
        self._send = send
        self._limit = limit
        self._start: Message | None = None
        self._chunks: list[bytes] = []
        self._size = 0
        self._passing = False

    async def __call__(self, message: Message) -> None:
        kind = message["type"]
        if kind == "http.response.start" and not self._passing:
            self._start = message
        elif kind == "http.response.body" and self._start is not None:
            await self._take(self._start, message)
        else:
            if self._passing and _is_last(message) and not self._exchange.settled:
                await self._settle(None)
            await self._send(message)

    async def _take(self, start: Message, message: Message) -> None:
        body = message.get("body", b"")
        last = not message.get("more_body", False)
        if not self._chunks and not self._can_be_kept(start, goes_on=not last):
            await self._pass(start, message)
            return
        self._chunks.append(body)
        self._size += len(body)
        if self._size > self._limit:
            await self._pass(start, {**message, "body": b"".join(self._chunks)})
        elif last and self._exchange.handling.done is not None:
            self._passing, self._start = True, None
            await send_answer(self._send, await self._exchange.repeat(self._exchange.handling.done))
        elif last:
            whole = self._chunks[0] if len(self._chunks) == 1 else b"".join(self._chunks)
            await self._settle(whole)
            await self._let_go({**message, "body": whole})

    def _can_be_kept(self, start: Message, *, goes_on: bool) -> bool:
        return not start.get("trailers", False) and can_be_kept(
            start["status"], start.get("headers", ()), self._limit, goes_on=goes_on
        )

    async def _pass(self, start: Message, message: Message) -> None:
        """From here on the handler speaks to the client directly."""
        # What will not be stored may not be given back while its handler still runs.
        if _is_last(message) or self._exchange.fate(start["status"]) is Fate.STORE:
            await self._settle(None)
        self._passing = True
        await self._let_go(message)

    async def _settle(self, body: bytes | None) -> None:
        start = self._start
        assert start is not None
        headers = list(start.get("headers", ()))
        headers += await self._exchange.settle(start["status"], headers, body)
        self._start = {**start, "headers": headers}

    async def _let_go(self, message: Message) -> None:
        start, self._start = self._start, None
        assert start is not None
        await self._send(start)
        await self._send(message)


def _is_last(message: Message) -> bool:
    return message["type"] == "http.response.body" and not message.get("more_body", False)


async def send_answer(send: Send, answer: Answer) -> None:
    await send({"type": "http.response.start", "status": answer.status, "headers": answer.headers})
    await send({"type": "http.response.body", "body": answer.body})
