"""The Redis protocol as bytes: commands packed by hand, replies read by hiredis, errors as redis-py names them."""

from collections.abc import Callable, Sequence
from typing import Any

import hiredis
from msgspec import Struct
from redis import exceptions as theirs

from dupeproof.stores.redis.faults import Late, RefusedForNow

_ERRORS: dict[str, type[Exception]] = {
    "ASK": theirs.AskError,
    "BUSY": RefusedForNow,
    "CLUSTERDOWN": theirs.ClusterDownError,
    "LATE": Late,
    "LOADING": theirs.BusyLoadingError,
    "MASTERDOWN": theirs.MasterDownError,
    "MISCONF": RefusedForNow,
    "MOVED": theirs.MovedError,
    "NOAUTH": theirs.AuthenticationError,
    "NOPERM": theirs.NoPermissionError,
    "NOREPLICAS": RefusedForNow,
    "NOSCRIPT": theirs.NoScriptError,
    "OOM": theirs.OutOfMemoryError,
    "READONLY": theirs.ReadOnlyError,
    "TRYAGAIN": theirs.TryAgainError,
    "UNKILLABLE": RefusedForNow,
    "WRONGPASS": theirs.AuthenticationError,
}


class Timed(Struct, frozen=True, gc=False):
    """A command to be carried out in time or not at all, by the server's clock; so it is packed when that is known."""

    until: float
    """When its caller gives up, by the clock of this process."""
    pack: Callable[[int], bytes]
    """The command, given that moment in milliseconds of the server's clock."""
    replies: int = 1
    """With more, the answer is a list of them."""


Command = bytes | Timed


def pack(*parts: bytes) -> bytes:
    """One command, ready to be sent."""
    return b"*%d\r\n" % len(parts) + b"".join([b"$%d\r\n%b\r\n" % (len(part), part) for part in parts])


def pack_call(sha: bytes, keys: list[bytes], args: list[bytes]) -> bytes:
    """One EVALSHA."""
    if len(keys) == 1 and len(args) == 1:
        key, arg = keys[0], args[0]
        return b"*5\r\n$7\r\nEVALSHA\r\n$40\r\n%b\r\n$1\r\n1\r\n$%d\r\n%b\r\n$%d\r\n%b\r\n" % (
            sha, len(key), key, len(arg), arg,
        )  # fmt: skip
    if len(keys) == 1 and len(args) == 3:
        key, (first, second, third) = keys[0], args
        return (
            b"*7\r\n$7\r\nEVALSHA\r\n$40\r\n%b\r\n$1\r\n1\r\n$%d\r\n%b\r\n$%d\r\n%b\r\n$%d\r\n%b\r\n$%d\r\n%b\r\n"
            % (sha, len(key), key, len(first), first, len(second), second, len(third), third)
        )
    return pack(b"EVALSHA", sha, b"%d" % len(keys), *keys, *args)


def replies_to(commands: Sequence[Command]) -> int:
    """How many replies will come."""
    if len(commands) == 1:
        return 1 if isinstance(commands[0], bytes) else commands[0].replies
    return len(commands)


def new_reader() -> Any:
    return hiredis.Reader(protocolError=theirs.InvalidResponse, replyError=error_of)


def error_of(text: str) -> Exception:
    """What the server's words mean."""
    code, _, rest = text.partition(" ")
    known = _ERRORS.get(code)
    if known is RefusedForNow:
        return RefusedForNow(text)
    if known is not None:
        return known(rest)
    if "max number of clients" in text:
        return theirs.ConnectionError(text)
    return theirs.ResponseError(text)
