"""What is said of a failure by a publisher, whose text may hold secrets."""

import errno
import re
import socket
from collections.abc import Iterator

from dupeproof.errors import BrokerUnavailable
from dupeproof.stores.urls import redact

_URL = re.compile(r"[\w+.-]+://\S+")
_SECRET = re.compile(
    r"(?i)\b(\w*(?:password|passwd|pwd|secret|token|api[_-]?key|authorization|signature|sig)\w*)(\s+is\s+|['\"]?\s*[:=]\s*|\s+)"
    r"(?!authentication failed)(?:(?:bearer|basic)\s+)?(?:\"[^\"]*\"|'[^']*'|\S+)"
    r"|\b(bearer|basic)(\s+)\S{8,}"
)
_LONGEST = 500


class HeldBack(Exception):
    """The result for a message that was not tried, because one before it with its key failed or the time was up."""


class PublisherDown(Exception):
    """Nothing can be published for now; the messages are not to blame. Raised inside a relay only."""

    def __init__(self, cause: BaseException, *, tried: bool) -> None:
        super().__init__(described(cause))
        self.__cause__ = cause
        self.tried = tried
        """Whether this very message was tried. Then it waits a little, so that others are tried before it."""


class TooLate(BrokerUnavailable):
    """The broker did not answer until the time to stop was over."""


class UsedUp(Exception):
    """The result for a message that is not tried any more."""


_UNREACHABLE = {errno.ENETUNREACH, errno.EHOSTUNREACH, errno.ENETDOWN, errno.EHOSTDOWN}
_BY_NAME = {
    "AMQPConnectionError",
    "ClientConnectionError",
    "ConnectError",
    "ConnectTimeoutError",
    "ConnectionError",
    "EndpointConnectionError",
    "KafkaConnectionError",
    "NoBrokersAvailable",
    "NoServersError",
    "SMTPConnectError",
    "SMTPServerDisconnected",
    "Timeout",
    "TimeoutError",
    "TimeoutException",
}
"""Classes of pika, aiohttp, httpx, urllib3, redis, requests, botocore, kafka-python, nats-py and smtplib, and of Python itself."""


def is_connection_error(error: BaseException) -> bool:
    """Whether nobody was reached, or did not answer in time; not that somebody answered with a refusal, as of HTTP."""
    return any(
        isinstance(each, socket.gaierror)
        or (isinstance(each, OSError) and each.errno in _UNREACHABLE)
        or not _BY_NAME.isdisjoint(kind.__name__ for kind in type(each).__mro__)
        for each in _wrapped(error)
    )


def _wrapped(error: BaseException | None) -> Iterator[BaseException]:
    """The error, then what it was raised from; urllib says `reason`."""
    while error is not None:
        yield error
        reason = getattr(error, "reason", None)
        error = reason if isinstance(reason, BaseException) else error.__cause__


def described(error: BaseException) -> str:
    """Type and text, one line, without passwords in URLs and what follows words like `password`."""
    try:
        said = str(error)
    except Exception:  # noqa: BLE001 - an error that cannot even say what it is
        said = ""
    said = said.encode("utf-8", "replace").decode()  # file names may hold what no database takes
    text = _URL.sub(lambda found: redact(found[0]), " ".join(said.split()))
    text = _SECRET.sub(lambda found: f"{found[1] or found[3]}{found[2] or found[4]}***", text).replace(
        "\0", ""
    )
    name = type(error).__qualname__
    return f"{name}: {text}"[:_LONGEST] if text else name
