"""redis-py: what its errors mean, and the settings that matter."""

from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

import redis.exceptions as theirs

from dupeproof.brokers.errors import BrokerUnavailable
from dupeproof.errors import ConfigError
from dupeproof.stores.urls import redact

__all__ = ["OPTIONS", "check_url", "theirs", "translated"]
TIMEOUT = 10.0
OPTIONS: dict[str, Any] = {
    "socket_timeout": TIMEOUT,
    "socket_connect_timeout": TIMEOUT,
    # A command whose reply was lost is not sent again: an entry would be in the stream twice.
    "retry_on_timeout": False,
    "retry": None,
}
_SCHEMES = ("redis", "rediss", "unix")


def check_url(url: str) -> str:
    if str(url).partition("://")[0] not in _SCHEMES:
        raise ConfigError(
            f"{redact(str(url))!r} is not where a stream can be; write redis://host:6379/0 (a single server, or the master)"
        )
    return url


@contextmanager
def translated(url: str, stream: str = "") -> Iterator[None]:
    try:
        yield
    except (theirs.AuthenticationError, theirs.NoPermissionError) as exc:
        raise ConfigError(
            f"Redis at {redact(url)} refused user or password, or a command this needs; check them"
        ) from exc
    except (theirs.ConnectionError, theirs.TimeoutError, theirs.BusyLoadingError, OSError) as exc:
        raise BrokerUnavailable(f"Redis at {redact(url)} cannot be reached") from exc
    except theirs.ResponseError as exc:
        text = str(exc)
        if "requires the key to exist" in text or "NOGROUP" in text or "no such key" in text:
            raise ConfigError(
                f"there is no stream {stream!r}, or its group is gone; add to it first, or consume with create=True"
            ) from exc
        if "WRONGTYPE" in text:
            raise ConfigError(f"the key {stream!r} is not a stream; choose another name") from exc
        raise BrokerUnavailable(f"Redis at {redact(url)} refused a command: {text[:200]}") from exc
