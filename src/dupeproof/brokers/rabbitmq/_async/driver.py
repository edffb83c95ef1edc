# No twin: aio-pika and pika are two libraries.
"""aio-pika: what its errors mean."""

from collections.abc import Iterator
from contextlib import contextmanager

from dupeproof.brokers.rabbitmq import texts
from dupeproof.brokers.rabbitmq.texts import check_url
from dupeproof.errors import ConfigError, DupeproofError

try:
    import aio_pika
    import aiormq.exceptions as theirs
except ModuleNotFoundError as exc:
    raise ConfigError(texts.NEEDS.format(driver="aio-pika")) from exc

__all__ = ["CONNECT_SECONDS", "aio_pika", "check_url", "meaning", "theirs", "translated"]
CONNECT_SECONDS = 10
_CODES = {
    theirs.ChannelNotFoundEntity: 404,
    theirs.ChannelAccessRefused: 403,
    theirs.ChannelLockedResource: 405,
    theirs.ChannelPreconditionFailed: 406,
}


def meaning(exc: BaseException, url: str) -> DupeproofError:
    for kind, code in _CODES.items():
        if isinstance(exc, kind):
            return texts.channel_closed(code, str(exc))
    match exc:
        case DupeproofError():
            return exc
        case theirs.ProbableAuthenticationError() | theirs.AuthenticationError():
            return texts.login(url)
        case theirs.ConnectionNotAllowed():
            return texts.no_access(url, str(exc))
        case theirs.AMQPError() | theirs.ChannelInvalidStateError():
            return texts.gone(type(exc).__name__)
    return texts.unreachable(url)


@contextmanager
def translated(url: str) -> Iterator[None]:
    try:
        yield
    except (theirs.AMQPError, theirs.ChannelInvalidStateError, OSError) as exc:
        raise meaning(exc, url) from exc
