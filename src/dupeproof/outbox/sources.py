"""Where a relay takes messages from: one contract, opened by URL."""

from collections.abc import Callable, Sequence
from importlib import import_module
from typing import Any, Protocol

from dupeproof.errors import ConfigError
from dupeproof.outbox.messages import Message
from dupeproof.outbox.places import MySQLPlace, SQLitePlace
from dupeproof.outbox.relay_steps import Place, StepwiseSource
from dupeproof.outbox.reports import DeadMessage, Delivered, OutboxStatus
from dupeproof.outbox.threaded import ThreadedSource
from dupeproof.stores.clients import StoreClient, checked_kind
from dupeproof.stores.factory import plain_url
from dupeproof.stores.urls import StoreURL, parse_url, redact


class Source(Protocol):
    """Each verb is one transaction of the source's own, by the clock of the database."""

    def take(self, token: bytes, lease: int, shards: int, most: int) -> list[Message]:
        """Lease at most `shards` shards in which something is due, and read at most `most` messages of them.

        Messages of a key stand in their order. What is read is written down as in hand before it is returned; if the shard is
        not given back in time, that counts as an attempt of the message it was, or makes each of several come alone.
        """
        ...

    def record(self, delivered: Delivered) -> int:
        """Write down what became of them and give the shards back; how many were removed as sent."""
        ...

    def status(self) -> OutboxStatus: ...

    def dead(self, limit: int) -> list[DeadMessage]: ...

    def retry(self, ids: Sequence[str] | None) -> list[str]:
        """Put dead messages back in their place, all of them for None; the ids of those that were dead."""
        ...

    def drop(self, ids: Sequence[str] | None) -> list[str]:
        """Give up dead messages; their keys go on."""
        ...

    def purge(self, limit: int) -> int:
        """Remove sent messages that were kept for long enough."""
        ...

    def tidy(self) -> None:
        """Done now and then, and takes its time: mend what nobody should have written, forget what nobody will ask for."""
        ...

    def wake_socket(self) -> int | None:
        """A socket that becomes readable when messages were committed; None where there is no such thing."""
        ...

    def woken(self) -> None:
        """Take from the socket what made it readable."""
        ...

    def close(self) -> None: ...


class AsyncSource(Protocol):
    """The same for tasks."""

    async def take(self, token: bytes, lease: int, shards: int, most: int) -> list[Message]: ...

    async def record(self, delivered: Delivered) -> int: ...

    async def status(self) -> OutboxStatus: ...

    async def dead(self, limit: int) -> list[DeadMessage]: ...

    async def retry(self, ids: Sequence[str] | None) -> list[str]: ...

    async def drop(self, ids: Sequence[str] | None) -> list[str]: ...

    async def purge(self, limit: int) -> int: ...

    async def tidy(self) -> None: ...

    async def wake_socket(self) -> int | None: ...

    def woken(self) -> None: ...

    async def close(self) -> None: ...


POSTGRES = ("postgresql", "postgres")
STEPWISE: dict[str, Callable[[StoreURL], Place]] = {
    "sqlite": SQLitePlace.open,
    "mysql": MySQLPlace.open,
    "mysql+pymysql": MySQLPlace.open,
    "mariadb": MySQLPlace.open,
    "mariadb+pymysql": MySQLPlace.open,
}
DRIVERS = {"psycopg": "postgres", "pymysql": "mysql"}
"""And the extras that bring them."""


def open_source(given: str | StoreClient) -> Source:
    source: Source = _opened(given, "postgres", StepwiseSource, is_async=False)
    return source


def open_async_source(given: str | StoreClient) -> AsyncSource:
    source: AsyncSource = _opened(
        given, "postgres_async", lambda place: ThreadedSource(StepwiseSource(place)), is_async=True
    )
    return source


def _opened(given: Any, module: str, stepwise: Callable[[Place], Any], *, is_async: bool) -> Any:
    url = _place(given, is_async=is_async)
    if url is None:
        return import_module(f"dupeproof.outbox.{module}").source_over(given)
    scheme = url.partition("://")[0] if isinstance(url, str) and "://" in url else ""
    if not isinstance(url, str) or scheme not in (*POSTGRES, *STEPWISE):
        shown = repr(redact(url)) if isinstance(url, str) else f"a {type(url).__qualname__}"
        raise ConfigError(
            f"{shown} is not where an outbox can be; write postgresql://user@host/database, "
            "mysql://user@host/database or sqlite:///file.db, 'django:default', or give a pool or engine of PostgreSQL"
        )
    try:
        if scheme in STEPWISE:
            return stepwise(STEPWISE[scheme](parse_url(url)))
        return import_module(f"dupeproof.outbox.{module}").open_source(parse_url(url))
    except ModuleNotFoundError as exc:
        driver = (exc.name or "").partition(".")[0]
        if driver not in DRIVERS:
            raise
        raise ConfigError(
            f"{scheme}:// needs the {driver} driver, which is not installed; "
            f'run: pip install "dupeproof[{DRIVERS[driver]}]"'
        ) from exc


def _place(given: Any, *, is_async: bool) -> Any:
    """The URL; None for a client of PostgreSQL, whose connections are used. A file or MariaDB is opened by a connection of our own."""
    if isinstance(given, str):
        return plain_url(given)
    kind = checked_kind(given, is_async=is_async)
    if kind is None or kind.library == "redis":
        return given  # which is refused as it is
    if kind.library != "sqlalchemy" or given.dialect.name == "postgresql":
        return None
    return plain_url(given.url.render_as_string(hide_password=False))
