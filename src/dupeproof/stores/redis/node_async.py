# No twin: one connection for all tasks here, one per thread in the sync counterpart.
"""One Redis server: a single connection that all tasks of a loop share.

What tasks ask for in one turn of the loop leaves in one write, and the answers come back in the order asked: that is
all the coalescing Redis needs. A task that is cancelled leaves its answer to be dropped; the others do not notice.
"""

import asyncio
import socket
from collections import deque
from collections.abc import Awaitable, Callable, Iterable, Sequence
from typing import Any, cast

from redis import exceptions as theirs

from dupeproof.stores.redis.faults import NotSent
from dupeproof.stores.redis.links import (
    AT_SOCKET,
    ROLE,
    TIME,
    UNREACHABLE,
    LinkOptions,
    ServerClock,
    not_connected,
    unanswered,
)
from dupeproof.stores.redis.resp import Command, new_reader
from dupeproof.stores.redis.targets import Address

_MOST_WAITING = 20_000
Locate = Callable[[], Awaitable[Address]]


class _Batch:
    """Several replies that one task waits for."""

    __slots__ = ("count", "future", "replies")

    def __init__(self, future: "asyncio.Future[list[Any]]", count: int) -> None:
        self.future = future
        self.count = count
        self.replies: list[Any] = []


class Link(asyncio.Protocol):
    def __init__(self, loop: asyncio.AbstractEventLoop, timeout: float) -> None:
        self._loop = loop
        self._timeout = timeout
        self._reader = new_reader()
        self._waiting: deque[asyncio.Future[Any] | _Batch] = deque()
        self._outgoing: list[bytes] = []
        self._transport: asyncio.Transport | None = None
        self._progress = 0.0
        self._watchdog: asyncio.TimerHandle | None = None
        self._room: asyncio.Future[None] | None = None
        self._paused = False
        self._retired = False
        self.socket: socket.socket | None = None
        self.lost = False

    def ask(self, payload: bytes) -> "asyncio.Future[Any]":
        future = self._loop.create_future()
        self._send(payload, future)
        return future

    def ask_many(self, payload: bytes, count: int) -> "asyncio.Future[list[Any]]":
        future: asyncio.Future[list[Any]] = self._loop.create_future()
        self._send(payload, _Batch(future, count))
        return future

    async def room(self) -> None:
        """Wait while too much is under way."""
        while (self._paused or len(self._waiting) > _MOST_WAITING) and not self.lost:
            if self._room is None:
                self._room = self._loop.create_future()
            await asyncio.shield(self._room)

    @property
    def is_full(self) -> bool:
        return self._paused or len(self._waiting) > _MOST_WAITING

    def close(self) -> None:
        self._fail(theirs.ConnectionError("closed"))

    def retire(self) -> None:
        """Close when the last answer is there; nobody asks for more."""
        self._retired = True
        if not self._waiting:
            self.close()

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        self._transport = cast("asyncio.Transport", transport)  # uvloop's is one in all but its type

    def data_received(self, data: bytes) -> None:
        self._progress = self._loop.time()
        reader, waiting = self._reader, self._waiting
        reader.feed(data)
        try:
            while (reply := reader.gets()) is not False:
                first = waiting[0]
                if isinstance(first, _Batch):
                    first.replies.append(reply)
                    if len(first.replies) == first.count:
                        waiting.popleft()
                        _resolve(first.future, first.replies)
                else:
                    waiting.popleft()
                    if isinstance(reply, Exception) or first.done():
                        _resolve(first, reply)
                    else:
                        first.set_result(reply)
        except (theirs.InvalidResponse, IndexError) as exc:
            self._fail(
                theirs.ConnectionError(f"the server sent what was not asked for: {type(exc).__name__}")
            )
        if self._room is not None and not self.is_full:
            self._let_in()
        if self._retired and not waiting:
            self.close()

    def connection_lost(self, exc: Exception | None) -> None:
        why = "the server closed it" if exc is None else type(exc).__name__
        self._fail(theirs.ConnectionError(f"the connection broke: {why}"))

    def pause_writing(self) -> None:
        self._paused = True

    def resume_writing(self) -> None:
        self._paused = False
        self._let_in()

    def _send(self, payload: bytes, waiter: "asyncio.Future[Any] | _Batch") -> None:
        if self.lost:
            raise theirs.ConnectionError("the connection is gone")
        if not self._waiting:
            self._progress = self._loop.time()
            if self._watchdog is None:
                self._watchdog = self._loop.call_later(self._timeout, self._watch)
        self._waiting.append(waiter)
        if not self._outgoing:
            self._loop.call_soon(self._flush)
        self._outgoing.append(payload)

    def _flush(self) -> None:
        if self._outgoing and self._transport is not None and not self.lost:
            payload = b"".join(self._outgoing)
            self._outgoing.clear()
            self._transport.write(payload)

    def _watch(self) -> None:
        """No answer for the length of the timeout while some are due: the server hangs."""
        self._watchdog = None
        if not self._waiting:
            return
        left = self._progress + self._timeout - self._loop.time()
        if left <= 0:
            self._fail(theirs.TimeoutError("no answer in time"))
        else:
            self._watchdog = self._loop.call_later(left, self._watch)

    def _fail(self, error: Exception) -> None:
        if self.lost:
            return
        self.lost = True
        if self._watchdog is not None:
            self._watchdog.cancel()
        if self._transport is not None:
            self._transport.abort()
        waiting, self._waiting = self._waiting, deque()
        for waiter in waiting:
            _resolve(waiter.future if isinstance(waiter, _Batch) else waiter, error)
        self._let_in()

    def _let_in(self) -> None:
        room, self._room = self._room, None
        if room is not None and not room.done():
            room.set_result(None)


def _resolve(future: "asyncio.Future[Any]", reply: Any) -> None:
    if future.done():
        return
    if isinstance(reply, Exception):
        future.set_exception(reply)
    else:
        future.set_result(reply)


async def _connected_socket(loop: asyncio.AbstractEventLoop, host: str, port: int) -> socket.socket:
    """The first address of the host that takes the call."""
    failure: OSError = OSError("the host has no address")
    found: Iterable[tuple[int, int, int, str, Any]]
    if port == AT_SOCKET:
        found = [(socket.AF_UNIX, socket.SOCK_STREAM, 0, "", host)]
    else:
        found = await loop.getaddrinfo(host, port, type=socket.SOCK_STREAM)
    for family, kind, protocol, _, address in found:
        sock = socket.socket(family, kind, protocol)
        try:
            sock.setblocking(False)
            await loop.sock_connect(sock, address)
        except OSError as exc:
            sock.close()
            failure = exc
        except BaseException:
            sock.close()
            raise
        else:
            return sock
    raise failure


def _looked_at(task: "asyncio.Task[Link]") -> None:
    """If all who waited have left, nobody is told why there is no connection."""
    if not task.cancelled():
        task.exception()


class AsyncNode:
    """A server, connected when first asked and again after a loss; `locate` says where, each time."""

    def __init__(self, locate: Locate, options: LinkOptions) -> None:
        self._locate = locate
        self._options = options
        self._link: Link | None = None
        self._connecting: asyncio.Task[Link] | None = None
        self._closed = False
        self.clock = ServerClock()
        self.address: Address | None = None
        """Where it was found last."""

    def ask(self, command: Command, patience: float | None = None) -> Awaitable[Any]:
        """The server's reply; its error, raised. With less patience than usual where that is given, in seconds."""
        if patience is not None:
            return self._ask_in_a_hurry(command, patience)
        link = self._link
        if link is None or link.lost or link.is_full:
            return self._ask_when_ready(command)
        if type(command) is bytes:
            return link.ask(command)
        if self.clock.is_old:
            return self._ask_when_ready(command)
        return self._asked(link, command)

    async def _ask_in_a_hurry(self, command: Command, patience: float) -> Any:
        try:
            async with asyncio.timeout(patience):
                return await self._ask_when_ready(command)
        except TimeoutError:
            raise theirs.TimeoutError("no answer in time") from None

    async def _ask_when_ready(self, command: Command) -> Any:
        return await self._asked(await self._ready([command]), command)

    def _asked(self, link: Link, command: Command) -> "asyncio.Future[Any]":
        payload = self.clock.pack(command)
        if isinstance(command, bytes) or command.replies == 1:
            return link.ask(payload)
        return link.ask_many(payload, command.replies)

    async def ask_many(self, commands: Sequence[Command]) -> list[Any]:
        """The replies to several commands; errors among them as values."""
        link = await self._ready(commands)
        return await link.ask_many(b"".join(map(self.clock.pack, commands)), len(commands))

    async def _ready(self, commands: Sequence[Command]) -> Link:
        link = self._link
        if link is None or link.lost:
            link = await self._connected()
        if self.clock.is_old and not all(type(command) is bytes for command in commands):
            self.clock.read(await link.ask_many(TIME, 1))
        if link.is_full:
            await link.room()
        return link

    async def close(self) -> None:
        """For good: whoever waits for a connection gets none."""
        self._closed = True
        connecting, self._connecting = self._connecting, None
        if connecting is not None and not connecting.done():
            connecting.cancel()
            await asyncio.wait([connecting])
        link, self._link = self._link, None
        if link is not None:
            link.close()

    async def disconnect(self) -> None:
        """Give up the connection; the next call makes a new one."""
        link, self._link = self._link, None
        if link is not None:
            link.retire()

    def discard(self) -> None:
        """Close the socket under a loop that is gone; everything else went with it."""
        link, self._link = self._link, None
        if link is not None and link.socket is not None:
            link.socket.close()

    async def _connected(self) -> Link:
        """All tasks that find no connection wait for the same new one."""
        connecting = self._connecting
        if not self._closed and (connecting is None or connecting.done()):
            connecting = self._connecting = asyncio.create_task(self._connect())
            connecting.add_done_callback(_looked_at)
        if connecting is not None:
            await asyncio.wait([connecting])
        if connecting is None or connecting.cancelled():
            # Not as a cancellation: nobody cancelled those who wait.
            raise NotSent("was closed before the connection was there")
        return connecting.result()

    async def _connect(self) -> Link:
        loop = asyncio.get_running_loop()
        try:
            async with asyncio.timeout(self._options.timeout):
                address = await self._locate()
                link = await self._greeted(loop, address, await _connected_socket(loop, *address))
        except UNREACHABLE as exc:
            raise not_connected(exc) from exc
        self.clock.doubt()
        self._link, self.address = link, address
        return link

    async def _greeted(self, loop: asyncio.AbstractEventLoop, address: Address, sock: socket.socket) -> Link:
        options = self._options
        try:
            _, link = await loop.create_connection(
                lambda: Link(loop, options.timeout),
                sock=sock,
                ssl=options.tls,
                server_hostname=address[0] if options.tls is not None else None,
            )
        except BaseException:
            sock.close()
            raise
        try:
            link.socket = sock
            for command in options.greeting():
                await link.ask(command)
            if options.primary:
                [role] = await link.ask_many(ROLE, 1)
                options.check_role(role)
        except theirs.RedisError as exc:
            link.close()
            raise unanswered(exc) from exc
        except BaseException:
            link.close()
            raise
        return link
