"""redis-py: what its errors mean, and the settings that matter."""

from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any
from urllib.parse import urlsplit

import redis.exceptions as theirs

from dupeproof.brokers.errors import BrokerUnavailable
from dupeproof.errors import ConfigError
from dupeproof.stores.redis.links import tls_of_redis
from dupeproof.stores.redis.targets import target
from dupeproof.stores.tls import (
    Tls,
    answers_plainly,
    has_no_tls,
    needs_tls,
    shown_to,
    speaks_tls,
    take_tls,
    tls_fault,
)
from dupeproof.stores.urls import parse_url, redact

__all__ = ["FULL", "OPTIONS", "address", "check_url", "is_full", "theirs", "translated"]
FULL = "Redis is full (maxmemory); give it more memory, or trim streams"
TIMEOUT = 10.0
OPTIONS: dict[str, Any] = {
    "socket_timeout": TIMEOUT,
    "socket_connect_timeout": TIMEOUT,
    # A command whose reply was lost is not sent again: an entry would be in the stream twice.
    "retry_on_timeout": False,
    "retry": None,
}
_SCHEMES = (
    "redis",
    "rediss",
    "unix",
    "redis+sentinel",
    "rediss+sentinel",
    "redis+cluster",
    "rediss+cluster",
)


def check_url(url: str) -> str:
    if str(url).partition("://")[0] not in _SCHEMES:
        raise ConfigError(
            f"{redact(str(url))!r} is not where a stream can be; write redis://host:6379/0, "
            "redis+sentinel://host:26379/primary or redis+cluster://host:6379"
        )
    if "+" in str(url).partition("://")[0]:
        target(parse_url(url))
    address(url)
    return url


def address(url: str) -> tuple[str, dict[str, Any]]:
    """For the driver: without our options of TLS, and what they are called there."""
    scheme, several, _ = url.partition("://")[0].partition("+")
    if several:
        plain, tls = url, tls_of_redis(parse_url(url).options) if scheme == "rediss" else None
    else:
        plain, tls = take_tls(url, "rediss")
    return plain, {} if tls is None else _secured(tls, plain, several=bool(several))


def _secured(tls: Tls, plain: str, *, several: bool) -> dict[str, Any]:
    tls.context()  # what cannot be read is an error now
    named = {"ssl_ca_certs": tls.cafile, "ssl_certfile": tls.certfile, "ssl_keyfile": tls.keyfile}
    options: dict[str, Any] = {name: value for name, value in named.items() if value}
    if not tls.verify:
        options["ssl_cert_reqs"] = "none"
    if several:
        options["ssl"] = True
    # Not in every version of the driver by itself.
    return options if "ssl_check_hostname" in plain else {**options, "ssl_check_hostname": tls.verify}


def is_full(exc: BaseException) -> bool:
    """Whether a command was refused for want of memory, by itself or in a script."""
    return isinstance(exc, theirs.OutOfMemoryError) or (
        isinstance(exc, theirs.ResponseError) and "OOM command not allowed" in str(exc)
    )


@contextmanager
def translated(url: str, stream: str = "", *, opening: bool = False) -> Iterator[None]:
    try:
        yield
    except (theirs.AuthenticationError, theirs.NoPermissionError) as exc:
        raise ConfigError(
            f"Redis at {redact(url)} refused user or password, or a command this needs; check them"
        ) from exc
    except (
        theirs.ConnectionError,
        theirs.TimeoutError,
        theirs.BusyLoadingError,
        theirs.RedisClusterException,
        OSError,
    ) as exc:
        fault = tls_fault(exc, url, "redis") or (_other_kind(exc, url) if opening else None)
        if fault is not None:
            raise fault from exc
        raise BrokerUnavailable(f"Redis at {redact(url)} cannot be reached") from exc
    except theirs.ResponseError as exc:
        text = str(exc)
        if is_full(exc):
            raise BrokerUnavailable(f"{FULL}: {redact(url)}") from exc
        if "requires the key to exist" in text or "NOGROUP" in text or "no such key" in text:
            raise ConfigError(
                f"there is no stream {stream!r}, or its group is gone; add to it first, or consume with create=True"
            ) from exc
        if "WRONGTYPE" in text:
            raise ConfigError(f"the key {stream!r} is not a stream; choose another name") from exc
        raise BrokerUnavailable(f"Redis at {redact(url)} refused a command: {text[:200]}") from exc


def _other_kind(exc: BaseException, url: str) -> ConfigError | None:
    """A server that does not understand the first words may speak TLS where we do not, or the other way round.

    Of several, the driver does not say which it was, nor of Sentinels why: then all that the URL names are looked at.
    """
    scheme, several, _ = url.partition("://")[0].partition("+")
    if several:
        found = target(parse_url(url))
        places, context = found.hosts, found.link.tls
    else:
        parts = urlsplit(url)
        places, context = [(parts.hostname or "localhost", parts.port or 6379)], None
    for place in places:
        if scheme == "redis" and not isinstance(exc, theirs.TimeoutError) and speaks_tls(*place):
            return needs_tls(url, "rediss")
        if scheme == "rediss" and answers_plainly(*place, b"PING\r\n"):
            return has_no_tls(url, "redis")
        fault = None if context is None else shown_to(*place, context)
        if fault is not None:
            return tls_fault(fault, url, "redis")
    return None
