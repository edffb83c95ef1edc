# No twin: pika and aio-pika are two libraries.
"""pika: how to connect, and what its errors mean."""

from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

from dupeproof.brokers.rabbitmq import texts
from dupeproof.brokers.rabbitmq.texts import check_url
from dupeproof.errors import ConfigError
from dupeproof.stores.tls import tls_fault
from dupeproof.stores.urls import redact

try:
    import pika
    import pika.exceptions
    from pika.adapters.utils.connection_workflow import AMQPConnectorException
except ModuleNotFoundError as exc:
    raise ConfigError(texts.NEEDS.format(driver="pika")) from exc

__all__ = ["CONNECT_SECONDS", "copies_parameters", "parameters", "pika", "translated"]
CONNECT_SECONDS = 10
_FORCED = 320
"""By an operator, or because the broker is shut down."""


def parameters(url: str) -> Any:
    """From a URL; options in it (`?heartbeat=30`) win over ours."""
    check_url(url)
    plain, context = texts.address(url)
    try:
        found = pika.URLParameters(plain)
    except Exception as exc:
        raise ConfigError(
            f"{redact(url)!r} is not an address of RabbitMQ that pika can read: {type(exc).__name__}"
        ) from exc
    if context is not None:
        found.ssl_options = pika.SSLOptions(context, found.host)
    # Trying again is the runner's matter, which can be told to stop.
    found.connection_attempts = 1
    if "socket_timeout" not in url:
        found.socket_timeout = CONNECT_SECONDS
    if "blocked_connection_timeout" not in url:
        found.blocked_connection_timeout = 30
    return found


def copies_parameters(url: str) -> Any:
    """A broker with an alarm is waited for. To connect again would not end it, and would bring the originals again."""
    found = parameters(url)
    if "blocked_connection_timeout" not in url:
        found.blocked_connection_timeout = None
    return found


@contextmanager
def translated(url: str) -> Iterator[None]:
    theirs = pika.exceptions
    try:
        yield
    except (theirs.ProbableAuthenticationError, theirs.AuthenticationError) as exc:
        raise texts.login(url) from exc
    except theirs.ProbableAccessDeniedError as exc:
        raise texts.no_access(url, "no such virtual host, or not for this user") from exc
    except theirs.ChannelClosedByBroker as exc:
        raise texts.channel_closed(exc.reply_code, exc.reply_text) from exc
    except theirs.ConnectionBlockedTimeout as exc:
        raise texts.gone(texts.BLOCKED) from exc
    except theirs.ConnectionClosedByBroker as exc:
        if exc.reply_code in (403, 530):
            raise texts.no_access(url, exc.reply_text) from exc
        if exc.reply_code == _FORCED:
            raise texts.gone(exc.reply_text) from exc
        raise texts.hung_up(exc.reply_text) from exc
    except theirs.StreamLostError as exc:
        raise tls_fault(exc, url, "amqp") or texts.hung_up("without a word") from exc
    except theirs.IncompatibleProtocolError as exc:
        raise texts.tls_missing(url) or texts.unreachable(url) from exc
    except (theirs.AMQPConnectionError, AMQPConnectorException) as exc:
        raise tls_fault(exc, url, "amqp") or texts.unreachable(url) from exc
    except (theirs.AMQPError, OSError) as exc:
        raise tls_fault(exc, url, "amqp") or texts.gone(type(exc).__name__) from exc
