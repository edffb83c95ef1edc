# No twin: one connection per thread at work here, one for all tasks in the async counterpart.
"""One Redis server: connections in a stack, each used by one thread at a time."""

import socket
from collections.abc import Callable, Sequence
from typing import Any

from redis import exceptions as theirs

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
from dupeproof.stores.redis.resp import Command, new_reader, replies_to
from dupeproof.stores.redis.targets import Address
from dupeproof.stores.sockets import poller

_CHUNK = 65_536
Locate = Callable[[], Address]


class Link:
    def __init__(self, address: Address, options: LinkOptions, patience: float | None) -> None:
        self._timeout = options.timeout
        try:
            sock = _connected_socket(address, patience or options.timeout)
            self._socket = (
                sock if options.tls is None else options.tls.wrap_socket(sock, server_hostname=address[0])
            )
        except UNREACHABLE as exc:
            raise not_connected(exc) from exc
        self._poll = poller(self._socket.fileno())
        self._reader = new_reader()
        try:
            self._greet(options)
            self._socket.settimeout(options.timeout)
        except theirs.RedisError as exc:
            self.close()
            raise unanswered(exc) from exc
        except BaseException:
            self.close()
            raise

    def _greet(self, options: LinkOptions) -> None:
        for command in options.greeting():
            [reply] = self.ask(command, 1)
            if isinstance(reply, Exception):
                raise reply
        if options.primary:
            [role] = self.ask(ROLE, 1)
            options.check_role(role)

    def ask(self, payload: bytes, count: int, patience: float | None = None) -> list[Any]:
        try:
            if patience is not None:
                self._socket.settimeout(patience)
            self._socket.sendall(payload)
            replies = self._replies(count)
        except TimeoutError:
            raise theirs.TimeoutError("no answer in time") from None
        except OSError as exc:
            raise theirs.ConnectionError(f"the connection broke: {type(exc).__name__}") from exc
        if patience is not None:
            self._socket.settimeout(self._timeout)
        return replies

    @property
    def is_stale(self) -> bool:
        """An idle connection has nothing to say. If it does, the server has closed it."""
        return bool(self._poll(0))

    def close(self) -> None:
        self._socket.close()

    def __del__(self) -> None:
        # Forgetting to close is fine.
        if hasattr(self, "_socket"):
            self._socket.close()

    def _replies(self, count: int) -> list[Any]:
        reader = self._reader
        replies: list[Any] = []
        while True:
            while len(replies) < count and (reply := reader.gets()) is not False:
                replies.append(reply)
            if len(replies) == count:
                return replies
            data = self._socket.recv(_CHUNK)
            if not data:
                raise theirs.ConnectionError("the server closed the connection")
            reader.feed(data)


def _connected_socket(address: Address, timeout: float) -> socket.socket:
    if address[1] != AT_SOCKET:
        sock = socket.create_connection(address, timeout=timeout)
        sock.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        return sock
    sock = socket.socket(socket.AF_UNIX, socket.SOCK_STREAM)
    try:
        sock.settimeout(timeout)
        sock.connect(address[0])
    except BaseException:
        sock.close()
        raise
    return sock


class Node:
    """A server, with as many connections as threads use it at once; `locate` says where it is, for each new one."""

    def __init__(self, locate: Locate, options: LinkOptions) -> None:
        self._locate = locate
        self._options = options
        self._idle: list[Link] = []
        self._closed = False
        self.clock = ServerClock()
        self.address: Address | None = None
        """Where it was found last."""

    def ask(self, command: Command, patience: float | None = None) -> Any:
        """The server's reply; its error, raised. With less patience than usual where that is given, in seconds."""
        if type(command) is bytes:
            [reply] = self._ask(command, [command], patience)
        else:
            replies = self._ask(None, [command], patience)
            reply = replies[0] if len(replies) == 1 else replies
        if isinstance(reply, Exception):
            try:
                raise reply
            finally:
                del (
                    reply
                )  # or the error and this frame would keep each other, and all callers' variables, alive
        return reply

    def ask_many(self, commands: Sequence[Command], patience: float | None = None) -> list[Any]:
        """The replies to several commands; errors among them as values."""
        timed = not all(type(command) is bytes for command in commands)
        return self._ask(None if timed else b"".join(commands), commands, patience)  # type: ignore[arg-type]

    def _ask(self, payload: bytes | None, commands: Sequence[Command], patience: float | None) -> list[Any]:
        """The replies. Where some of it is timed, it is packed when the server's time is known."""
        link = self._taken(patience)
        try:
            if payload is None:
                if self.clock.is_old:
                    self.clock.read(link.ask(TIME, 1, patience))
                payload = b"".join(map(self.clock.pack, commands))
            replies = link.ask(payload, replies_to(commands), patience)
        except theirs.RedisError:
            # Half a conversation may be left on it: nobody else must read the rest. The others go the same way, or each
            # would be found dead or silent by a call of its own.
            link.close()
            self.disconnect()
            raise
        except BaseException:
            link.close()
            raise
        if self._closed:
            link.close()
        else:
            self._idle.append(link)
        return replies

    def close(self) -> None:
        """Give up idle connections; those in use are given up by their users."""
        self._closed = True
        self.disconnect()

    def disconnect(self) -> None:
        """Give up idle connections; the next call makes a new one."""
        while True:
            try:
                link = self._idle.pop()
            except IndexError:
                return
            link.close()

    def discard(self) -> None:
        self.close()

    def _taken(self, patience: float | None) -> Link:
        while True:
            try:
                link = self._idle.pop()
            except IndexError:
                return self._connected(patience)
            if not link.is_stale:
                return link
            link.close()

    def _connected(self, patience: float | None) -> Link:
        address = self._locate()
        link = Link(address, self._options, patience)
        if address != self.address:
            self.clock.doubt()
            self.address = address
        return link
