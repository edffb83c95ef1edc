# No twin: one connection per thread at work here, one for all tasks in the async counterpart.
"""One Redis server: connections in a stack, each used by one thread at a time."""

import select
import socket
from typing import Any

from redis import exceptions as theirs

from dupeproof.stores.redis.links import LinkOptions
from dupeproof.stores.redis.resp import new_reader
from dupeproof.stores.redis.targets import Address

_CHUNK = 65_536


class Link:
    def __init__(self, address: Address, options: LinkOptions) -> None:
        try:
            sock = socket.create_connection(address, timeout=options.timeout)
            sock.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
            self._socket = (
                sock if options.tls is None else options.tls.wrap_socket(sock, server_hostname=address[0])
            )
        except TimeoutError:
            raise theirs.TimeoutError("connecting took too long") from None
        except OSError as exc:
            raise theirs.ConnectionError(f"connecting failed: {type(exc).__name__}") from exc
        self._poller = select.poll()
        self._poller.register(self._socket, select.POLLIN)
        self._reader = new_reader()
        try:
            self._greet(options.greeting())
        except BaseException:
            self.close()
            raise

    def _greet(self, commands: list[bytes]) -> None:
        for command in commands:
            [reply] = self.ask(command, 1)
            if isinstance(reply, Exception):
                raise reply

    def ask(self, payload: bytes, count: int) -> list[Any]:
        try:
            self._socket.sendall(payload)
            return self._replies(count)
        except TimeoutError:
            raise theirs.TimeoutError("no answer in time") from None
        except OSError as exc:
            raise theirs.ConnectionError(f"the connection broke: {type(exc).__name__}") from exc

    @property
    def is_stale(self) -> bool:
        """An idle connection has nothing to say. If it does, the server has closed it."""
        return bool(self._poller.poll(0))

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


class Node:
    """A server by its address; as many connections as threads use it at once."""

    def __init__(self, address: Address, options: LinkOptions) -> None:
        self._address = address
        self._options = options
        self._idle: list[Link] = []
        self._closed = False

    def ask(self, payload: bytes) -> Any:
        """The server's reply; its error, raised."""
        [reply] = self.ask_many(payload, 1)
        if isinstance(reply, Exception):
            try:
                raise reply
            finally:
                del (
                    reply
                )  # or the error and this frame would keep each other, and all callers' variables, alive
        return reply

    def ask_many(self, payload: bytes, count: int) -> list[Any]:
        """The replies to several commands; errors among them as values."""
        link = self._taken()
        try:
            replies = link.ask(payload, count)
        except BaseException:
            # Half a conversation may be left on it: nobody else must read the rest.
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
        while self._idle:
            self._idle.pop().close()

    def discard(self) -> None:
        self.close()

    def _taken(self) -> Link:
        while True:
            try:
                link = self._idle.pop()
            except IndexError:
                return Link(self._address, self._options)
            if not link.is_stale:
                return link
            link.close()
