"""Both directions of an ASGI exchange: the request body, read before the handler, and its response, held back."""

import asyncio
from collections.abc import Awaitable, Callable, Iterable, Iterator, MutableMapping
from copy import copy
from typing import Any

from dupeproof.core.events import logger
from dupeproof.http.answers import Answer
from dupeproof.http.bodies import Body, check_size
from dupeproof.http.exchange_async import AsyncExchange
from dupeproof.http.rules import Rules
from dupeproof.http.statuses import Fate, can_be_kept, has_length, is_unbuffered

Message = MutableMapping[str, Any]
Receive = Callable[[], Awaitable[Message]]
Send = Callable[[Message], Awaitable[None]]


class Disconnected(BaseException):
    """The client left before its request, or the handler before its response, was complete."""


class Gone(OSError):
    """What a handler that streams gets when its client has gone: the same error as from servers."""


class Client:
    """Whoever sent the request: what the server lets us hear of it and say to it."""

    __slots__ = ("_receive", "_send", "_shown", "gone", "hides")

    def __init__(self, receive: Receive, send: Send, *, hides: bool) -> None:
        self._receive = receive
        self._send = send
        self.hides = hides
        """Whether the handler is not to hear that the client has gone: it is to come to its end."""
        self._shown: asyncio.Event | None = None
        self.gone = False
        """The server waits for nothing any more."""

    async def receive(self) -> Message:
        """What comes after the body: that the client has gone. A handler receives it once it only streams."""
        if self.hides:
            if self._shown is None:
                self._shown = asyncio.Event()
            await self._shown.wait()
        return {"type": "http.disconnect"} if self.gone else await self._receive()

    def show(self) -> None:
        """From here on the handler hears when the client goes: there is nothing left to bring to an end."""
        self.hides = False
        if self._shown is not None:
            self._shown.set()

    def leave(self) -> None:
        self.gone = True

    async def has_left(self) -> bool:
        """Whether the client itself has gone. If not, who cancelled its request may want to answer in our place."""
        coming = asyncio.ensure_future(self._receive())
        try:
            await asyncio.sleep(0)
            if coming.done():
                return coming.exception() is not None or coming.result()["type"] == "http.disconnect"
            return False
        finally:
            coming.cancel()

    async def send(self, message: Message) -> None:
        if not self.gone:
            await self._send(message)
        elif message.get("more_body", False):
            raise Gone("the client has gone")


class Inlet:
    """The `receive` of the app: the body that was read already, and after it whatever the server says."""

    __slots__ = ("_client", "_left", "_limit", "_receive", "_spooled", "_whole")

    def __init__(self, receive: Receive, client: Client, limit: int) -> None:
        self._receive = receive
        self._client = client
        self._limit = limit
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
        return await self._client.receive()

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
    """The `send` of the app: keeps the response until it is whole, concludes the key, then lets it go.

    What cannot be kept, a stream or what is too large, is concluded as done before its first byte goes out.
    """

    __slots__ = (
        "_chunks",
        "_client",
        "_exchange",
        "_limit",
        "_overdue",
        "_passing",
        "_patience",
        "_size",
        "_start",
        "_timer",
    )

    def __init__(self, exchange: AsyncExchange, client: Client, rules: Rules) -> None:
        self._exchange = exchange
        self._client = client
        self._limit = rules.response_limit
        self._patience = rules.stream_after
        self._start: Message | None = None
        self._chunks: list[bytes] = []
        self._size = 0
        self._timer: asyncio.TimerHandle | None = None
        self._overdue: asyncio.Task[None] | None = None
        """Lets go what was kept of a response that does not come to its end."""
        self._passing = False
        """The handler speaks to the client directly."""

    def __call__(self, message: Message) -> Awaitable[None]:
        kind = message["type"]
        if self._passing:
            return self._hand_on(message)
        if kind == "http.response.start":
            self._start = message
            return self._begin(message)
        if kind == "http.response.body" and self._start is not None:
            return self._take(self._start, message)
        return self._client.send(message)

    @property
    def streams(self) -> bool:
        """Whether the response goes out as it comes, and nothing is left to be brought to an end."""
        return self._passing and self._exchange.concluded

    async def close(self) -> None:
        """The handler has ended, in whichever way."""
        if self._timer is not None:
            self._timer.cancel()
        if self._overdue is not None:
            await asyncio.wait([self._overdue])
            # The handler would have heard of it when it sent more, and it sends no more.
            if not self._overdue.cancelled() and (error := self._overdue.exception()) is not None:
                logger.debug("The beginning of a stream could not be sent: %s", type(error).__name__)

    def _begin(self, start: Message) -> Awaitable[None]:
        headers = start.get("headers", ())
        if start.get("trailers", False) or not can_be_kept(start["status"], headers, self._limit):
            self._passing = True
            return self._open(start)
        if not has_length(headers):
            self._timer = asyncio.get_running_loop().call_later(self._patience, self._stream)
        return _nothing()

    async def _take(self, start: Message, message: Message) -> None:
        body = message.get("body", b"")
        last = not message.get("more_body", False)
        if not last and not self._chunks and is_unbuffered(start.get("headers", ())):
            self._size = self._limit
        self._chunks.append(body)
        self._size += len(body)
        if self._size <= self._limit and not last:
            return
        self._passing = True
        if self._timer is not None:
            self._timer.cancel()
        if last and self._exchange.handling.done is not None:
            await send_answer(self._client.send, await self._exchange.repeat(self._exchange.handling.done))
        elif last:
            await self._send_whole(start, message)
        else:
            await self._open(start)
            await self._client.send({**message, "body": b"".join(self._chunks)})

    async def _send_whole(self, start: Message, message: Message) -> None:
        body = self._chunks[0] if len(self._chunks) == 1 else b"".join(self._chunks)
        headers = start.get("headers", ())
        kept = body if self._size <= self._limit else None
        added = await self._exchange.conclude(start["status"], headers, kept)
        if added:
            start = {**start, "headers": [*headers, *added]}
        await self._client.send(start)
        await self._client.send({**message, "body": body} if len(self._chunks) > 1 else message)
        self._client.show()

    async def _open(self, start: Message) -> None:
        """The head of a response that is not kept. It is done, whatever becomes of the rest of it."""
        # What will not be stored may not be given back while its handler still runs.
        if self._exchange.fate(start["status"]) is Fate.STORE:
            headers = start.get("headers", ())
            added = await self._exchange.conclude(start["status"], headers, None)
            start = {**start, "headers": [*headers, *added]}
        self._client.show()
        await self._client.send(start)

    def _stream(self) -> None:
        """The end of the response is not in sight."""
        if not self._passing:
            self._passing = True
            self._overdue = asyncio.ensure_future(self._let_go())

    async def _let_go(self) -> None:
        assert self._start is not None
        await self._open(self._start)
        if self._chunks:
            whole = b"".join(self._chunks)
            await self._client.send({"type": "http.response.body", "body": whole, "more_body": True})

    async def _hand_on(self, message: Message) -> None:
        if self._overdue is not None:
            overdue, self._overdue = self._overdue, None
            await overdue
        ends = message["type"] == "http.response.body" and not message.get("more_body", False)
        if ends and self._start is not None and not self._exchange.concluded:
            await self._exchange.conclude(self._start["status"], (), None)
        await self._client.send(message)


async def _nothing() -> None:
    """The start of a response is kept, and nobody waits for it."""


async def send_answer(send: Send, answer: Answer) -> None:
    await send({"type": "http.response.start", "status": answer.status, "headers": answer.headers})
    await send({"type": "http.response.body", "body": answer.body})
