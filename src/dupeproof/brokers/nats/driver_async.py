# No twin: nats-py is for tasks only.
"""nats-py: how to connect, and what its errors mean."""

import asyncio
import ssl
from collections import deque
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from typing import Any

from dupeproof.brokers.errors import BrokerUnavailable, Full, NotPublished
from dupeproof.errors import ConfigError
from dupeproof.stores.tls import take_tls, tls_fault
from dupeproof.stores.urls import redact

try:
    import nats.aio.client as nats
    import nats.errors as theirs
    import nats.js.errors as streams
except ModuleNotFoundError as exc:
    raise ConfigError(
        'nats:// needs nats-py, which is not installed; run: pip install "dupeproof[nats]"'
    ) from exc

__all__ = [
    "TIMEOUT",
    "Client",
    "check_url",
    "connect",
    "leave",
    "refusal",
    "streams",
    "theirs",
    "translated",
]
TIMEOUT = 5.0
_GOODBYE = 1.0
"""Seconds for the server when we close a connection."""


def check_url(url: str) -> str:
    if str(url).partition("://")[0] not in ("nats", "tls", "ws", "wss"):
        raise ConfigError(
            f"{redact(str(url))!r} is not an address of NATS; write nats://user:password@host:4222"
        )
    _address(url)
    return url


def _address(url: str) -> tuple[str, ssl.SSLContext | None]:
    """For the driver: without our options, and what they say."""
    plain, tls = take_tls(url, "wss" if url.startswith("wss") else "tls")
    return plain, None if tls is None else tls.context()


class Client(nats.Client):
    """Knows what it was not permitted to do. The server says so by the way, and leaves the request without an answer."""

    def __init__(self, url: str) -> None:
        super().__init__()
        self._url = url
        self._opening = True
        self.refusals: deque[str] = deque(maxlen=1_000)
        self.over = asyncio.Event()
        """The connection is closed, by whomever."""

    async def note(self, exc: Exception) -> None:
        """In place of the driver's own, which logs every error with its traceback."""
        if self._opening and isinstance(exc, ssl.SSLError):
            raise exc  # the driver would close the connection first, and wait for that without end
        if "permissions violation" in str(exc).lower():
            self.refusals.append(str(exc).removeprefix("nats: "))

    async def _process_info(self, info: dict[str, Any], initial_connection: bool = False) -> None:
        """Before the password is sent. The driver would go on without TLS where the server has none."""
        if initial_connection and self._url.startswith("tls:") and not info.get("tls_required"):
            raise ConfigError(
                f"{redact(self._url)} speaks no TLS on this port; write nats:// if that is meant"
            )
        await super()._process_info(info, initial_connection)

    def opened(self) -> None:
        self._opening = False

    async def end(self) -> None:
        self.over.set()

    def was_refused(self, subject: str) -> bool:
        """Whether a message for it was. Reported once for each: the next one that gets no answer may have been permitted."""
        for each in self.refusals:
            if f'publish to "{subject.lower()}"' in each.lower():
                self.refusals.remove(each)
                return True
        return False


async def connect(url: str) -> Client:
    """Comes back by itself never: what to do with the messages in hand is the runner's matter."""
    client = Client(url)
    plain, context = _address(url)
    try:
        async with asyncio.timeout(TIMEOUT):
            await client.connect(
                plain,
                tls=context,
                allow_reconnect=False,
                max_reconnect_attempts=1,
                reconnect_time_wait=0,
                connect_timeout=round(TIMEOUT),
                error_cb=client.note,
                closed_cb=client.end,
            )
    except BaseException:
        await leave(client)
        raise
    client.opened()
    return client


async def leave(client: Client) -> None:
    """Close it, within a bounded time: the driver waits for a server that does not listen, or for a broken TLS, without end."""
    with suppress(theirs.Error, OSError, TimeoutError):
        async with asyncio.timeout(_GOODBYE):
            await client.close()


@contextmanager
def translated(
    url: str, subject: str = "", client: Callable[[], Client | None] = lambda: None
) -> Iterator[None]:
    """`client` is asked when something has gone wrong; there may be none before. One that is cut off was not refused."""
    try:
        yield
    except (theirs.AuthorizationError, theirs.InvalidUserCredentialsError) as exc:
        raise _login(url) from exc
    except (streams.NotFoundError, streams.NoStreamResponseError) as exc:
        raise ConfigError(
            f"there is no stream for the subject {subject!r}; add one first, or consume with create=True"
        ) from exc
    except streams.ServiceUnavailableError as exc:
        raise BrokerUnavailable(f"NATS at {redact(url)} has no JetStream now; is it enabled?") from exc
    except streams.APIError as exc:
        raise ConfigError(f"NATS refused {subject!r}: {exc.description or exc}") from exc
    except (theirs.Error, OSError, TimeoutError) as exc:
        fault = tls_fault(exc, url, "nats")
        if fault is not None:
            raise fault from exc
        if "authorization" in str(exc).lower():
            raise _login(url) from exc
        found = client()
        if found is not None and found.is_connected and found.refusals:
            raise ConfigError(
                f"NATS does not let the user of {redact(url)} do what is needed: {found.refusals[-1][:300]} "
                "(which its client shows in lower case); permit it"
            ) from exc
        raise BrokerUnavailable(f"NATS at {redact(url)} cannot be reached, or does not answer") from exc


_FULL = (10002, 10023, 10028, 10047, 10077)
"""Numbers of the server's errors: the limits of an account, of the server's memory or disk, or of a stream are reached."""
_TOO_LARGE = 10054


def refusal(exc: streams.APIError, subject: str) -> NotPublished | None:
    """What the answer to a message means; None where JetStream itself is away."""
    text = f"the stream of {subject!r} refused a message: {exc.description or exc}"
    if exc.err_code in _FULL:
        return Full(f"{text}; it is full, raise its limits or remove some")
    if exc.err_code == _TOO_LARGE:
        return NotPublished(f"{text}; raise its max_msg_size", reason="unfit")
    if isinstance(exc, streams.ServiceUnavailableError):
        return None
    return NotPublished(text, reason="refused")


def _login(url: str) -> ConfigError:
    return ConfigError(f"NATS refused user or password of {redact(url)}; check them")
