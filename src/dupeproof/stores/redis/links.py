"""How to reach a Redis server, what to say first, and what time it is there; shared by the sync and the async link."""

import ssl
import time
from typing import Any

from msgspec import Struct
from redis import exceptions as theirs

from dupeproof.stores.redis.faults import NotSent
from dupeproof.stores.redis.resp import Command, pack
from dupeproof.stores.tls import Tls, explained, tls_of

ROLE = pack(b"ROLE")
TIME = pack(b"TIME")
_CLOCK_LASTS = 60.0
"""Seconds for which two clocks are taken to run alike."""


AT_SOCKET = 0
"""In place of a port, where the host is the path of a unix socket."""


class LinkOptions(Struct, frozen=True):
    timeout: float
    username: str | None = None
    password: str | None = None
    database: int = 0
    tls: ssl.SSLContext | None = None
    primary: bool = False
    """Refuse a server that is not a primary: Sentinels may name one that is no longer, or not yet."""

    def greeting(self) -> list[bytes]:
        """Commands that come before everything else on a new connection."""
        commands = []
        if self.password is not None:
            who = [] if self.username is None else [self.username.encode()]
            commands.append(pack(b"AUTH", *who, self.password.encode()))
        if self.database:
            commands.append(pack(b"SELECT", b"%d" % self.database))
        return commands

    def check_role(self, role: Any) -> None:
        if self.primary and not isinstance(role, Exception) and role[0] != b"master":
            raise NotSent("is a replica, and Sentinel still names it as the primary")


class ServerClock:
    """A server's time, seen from here. Never ahead of it, unless its clock was set back; then for a minute at most."""

    def __init__(self) -> None:
        self.doubt()

    def doubt(self) -> None:
        """It turned out to be wrong: ask before it is used again."""
        self._read_at = float("-inf")
        self._ahead = 0.0

    @property
    def is_old(self) -> bool:
        return time.monotonic() - self._read_at > _CLOCK_LASTS

    def read(self, replies: list[Any]) -> None:
        """The answer to TIME. It was true when it was sent, so by now it is later there: the error is on the safe side."""
        [reply] = replies
        if isinstance(reply, Exception):
            raise reply
        self._read_at = time.monotonic()
        self._ahead = int(reply[0]) * 1_000 + int(reply[1]) / 1_000 - self._read_at * 1_000

    def pack(self, command: Command) -> bytes:
        if type(command) is bytes:
            return command
        assert not isinstance(command, bytes)
        return command.pack(int(command.until * 1_000 + self._ahead))


UNREACHABLE = (OSError, UnicodeError)
"""Why there is no connection. The second is of names that cannot be those of a host."""


def not_connected(exc: Exception) -> NotSent:
    """Why there is no connection, in words that say what to change."""
    match exc:
        case ssl.SSLError():
            return NotSent(explained(exc, "redis"))
        case TimeoutError():
            return NotSent("did not take the connection in time")
        case _:
            return NotSent(f"cannot be reached: {type(exc).__name__}")


def unanswered(exc: Exception) -> Exception:
    """What a connection that broke during the first words means; a refusal stays what it is."""
    broken = type(exc) in (theirs.TimeoutError, theirs.ConnectionError)
    return NotSent("took the connection, but did not answer") if broken else exc


_THEIRS = {"ssl_ca_certs": "cafile", "ssl_certfile": "certfile", "ssl_keyfile": "keyfile"}
"""As redis-py calls them, which is as good."""


def tls_of_redis(options: dict[str, Any]) -> Tls:
    """From the options of a URL, by our names or by theirs."""
    ours = {_THEIRS.get(name, name): value for name, value in options.items()}
    if options.get("ssl_cert_reqs") == "none":
        ours["verify"] = "no"
    return tls_of(ours)
