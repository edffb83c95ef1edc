"""Say a few words of Redis's protocol over a socket: enough to set servers up without a client library."""

import socket
from types import TracebackType
from typing import Self

Reply = str | int | list["Reply"] | None


class RespError(RuntimeError):
    """The server answered with an error."""


class Resp:
    """One connection. Every call has the same bounded time."""

    def __init__(
        self, port: int, *, host: str = "127.0.0.1", user: str = "", password: str = "", timeout: float = 2.0
    ) -> None:
        self._socket = socket.create_connection((host, port), timeout)
        self._file = self._socket.makefile("rb")
        if password:
            self.call("AUTH", *([user] if user else []), password)

    def call(self, *words: str | int) -> Reply:
        parts = [str(word).encode() for word in words]
        request = b"*%d\r\n" % len(parts) + b"".join(b"$%d\r\n%s\r\n" % (len(part), part) for part in parts)
        self._socket.sendall(request)
        return self._read()

    def text(self, *words: str | int) -> str:
        """Call for a reply that is one string."""
        reply = self.call(*words)
        if not isinstance(reply, str):
            raise RespError(f"{words[0]} answered {type(reply).__name__}, not a string")
        return reply

    def facts(self, *words: str | int) -> dict[str, str]:
        """Call for a reply of `name:value` lines, as INFO and CLUSTER INFO give them."""
        pairs = (line.partition(":") for line in self.text(*words).splitlines() if ":" in line)
        return {name: value for name, _, value in pairs}

    def _read(self) -> Reply:
        line = self._file.readline()
        if not line.endswith(b"\r\n"):
            raise ConnectionError("the server closed the connection")
        kind, rest = line[:1], line[1:-2].decode(errors="replace")
        match kind:
            case b"+":
                return rest
            case b"-":
                raise RespError(rest)
            case b":":
                return int(rest)
            case b"$":
                return None if int(rest) < 0 else self._file.read(int(rest) + 2)[:-2].decode(errors="replace")
            case b"*":
                return None if int(rest) < 0 else [self._read() for _ in range(int(rest))]
            case _:
                raise RespError(f"not a Redis server: it answered {line[:40]!r}")

    def close(self) -> None:
        self._file.close()
        self._socket.close()

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.close()
