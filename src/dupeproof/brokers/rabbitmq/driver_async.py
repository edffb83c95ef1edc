# No twin: aio-pika and pika are two libraries.
"""aio-pika: how to connect, and what its errors mean."""

import asyncio
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

from dupeproof.brokers.errors import BrokerUnavailable
from dupeproof.brokers.rabbitmq import texts
from dupeproof.brokers.rabbitmq.texts import check_url
from dupeproof.errors import ConfigError, DupeproofError
from dupeproof.stores.tls import tls_fault

try:
    import aio_pika
    import aiormq.exceptions as theirs
except ModuleNotFoundError as exc:
    raise ConfigError(texts.NEEDS.format(driver="aio-pika")) from exc

__all__ = ["TROUBLES", "aio_pika", "check_url", "connect", "disconnect", "meaning", "theirs", "translated"]
CONNECT_SECONDS = 10
_CLOSE_SECONDS = 1.0
"""For the broker to answer when we close a connection."""
_CANCELLATIONS = 3
_TURNS = 10
"""Of the loop, for the tasks of a connection's channels to end: they begin when the connection has ended, and nobody waits for them."""
_FORCED = 320
"""By an operator, or because the broker is shut down."""
TROUBLES = (theirs.AMQPError, theirs.ChannelInvalidStateError, OSError)
_CODES = {
    theirs.ChannelNotFoundEntity: 404,
    theirs.ChannelAccessRefused: 403,
    theirs.ChannelLockedResource: 405,
    theirs.ChannelPreconditionFailed: 406,
}


async def connect(url: str) -> Any:
    """Not the robust kind, which comes back by itself: what it has delivered would then be decided on a new channel."""
    plain, context = texts.address(url)
    try:
        return await aio_pika.connect(plain, timeout=CONNECT_SECONDS, ssl_context=context)
    except TROUBLES as exc:
        found = meaning(exc, url)
        if not isinstance(found, BrokerUnavailable):
            raise
        raise await asyncio.to_thread(texts.tls_missing, url) or found from exc


async def disconnect(connection: Any) -> None:
    """Close a connection in a bounded time. A broken one, and one whose broker does not read, are as good as closed.

    The first close waits for the broker's answer. A second one ends the driver's tasks without it; tasks left to the
    end of the loop would be destroyed while they are pending.
    """
    if connection is None or connection.is_closed:
        return
    transport = connection.transport
    for close in (connection.close, *([transport.close] if transport is not None else [])):
        if await _ended(asyncio.ensure_future(close(theirs.ConnectionClosed(0, "normal closed")))):
            break
    for _ in range(_TURNS):
        await asyncio.sleep(0)


async def _ended(closing: "asyncio.Future[None]") -> bool:
    """Whether it came to its end in time. The driver passes over a first cancellation while it waits for its own tasks."""
    try:
        await asyncio.wait([closing], timeout=_CLOSE_SECONDS)
        if closing.done() and not closing.cancelled():
            fault = closing.exception()
            if fault is not None and not isinstance(fault, (theirs.AMQPError, OSError, RuntimeError)):
                raise fault
            return fault is None
    finally:
        for _ in range(_CANCELLATIONS):
            if not closing.done():
                closing.cancel()
                await asyncio.wait([closing], timeout=_CLOSE_SECONDS / _CANCELLATIONS)
    return False


def meaning(exc: BaseException, url: str) -> DupeproofError:
    for kind, code in _CODES.items():
        if isinstance(exc, kind):
            return texts.channel_closed(code, str(exc))
    fault = tls_fault(exc, url, "amqp")
    if fault is not None:
        return fault
    match exc:
        case DupeproofError():
            return exc
        case theirs.ProbableAuthenticationError() | theirs.AuthenticationError():
            return texts.login(url)
        case theirs.ConnectionNotAllowed():
            return texts.no_access(url, str(exc))
        case theirs.ConnectionClosed() if exc.args[:1] == (_FORCED,):
            return texts.gone(str(exc.args[-1]))
        case theirs.ConnectionClosed():
            return texts.hung_up(str(exc.args[-1]))
        case theirs.AMQPConnectionError() | theirs.ChannelInvalidStateError() | ConnectionError():
            return texts.hung_up("without a word")
        case theirs.AMQPError():
            return texts.gone(type(exc).__name__)
    return texts.unreachable(url)


@contextmanager
def translated(url: str) -> Iterator[None]:
    try:
        yield
    except TROUBLES as exc:
        raise meaning(exc, url) from exc
