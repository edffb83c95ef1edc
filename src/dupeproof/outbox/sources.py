"""Where a relay takes messages from: one contract, opened by URL."""

from collections.abc import Sequence
from importlib import import_module
from typing import Any, Protocol

from dupeproof.errors import ConfigError
from dupeproof.outbox.messages import Message
from dupeproof.outbox.reports import DeadMessage, OutboxStatus, Settlement
from dupeproof.stores.urls import parse_url, redact


class Source(Protocol):
    """Each verb is one transaction of the source's own, by the clock of the database."""

    def take(self, token: bytes, lease: int, lanes: int, most: int) -> list[Message]:
        """Lease lanes in which something is due, and read it. Messages of a key stand in their order."""
        ...

    def settle(self, settlement: Settlement) -> int:
        """Write down what became of them and give the lanes back; how many were removed as sent."""
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

    def wake_socket(self) -> int | None:
        """A socket that becomes readable when messages were committed; None where there is no such thing."""
        ...

    def woken(self) -> None:
        """Take from the socket what made it readable."""
        ...

    def close(self) -> None: ...


class AsyncSource(Protocol):
    """The same for tasks."""

    async def take(self, token: bytes, lease: int, lanes: int, most: int) -> list[Message]: ...

    async def settle(self, settlement: Settlement) -> int: ...

    async def status(self) -> OutboxStatus: ...

    async def dead(self, limit: int) -> list[DeadMessage]: ...

    async def retry(self, ids: Sequence[str] | None) -> list[str]: ...

    async def drop(self, ids: Sequence[str] | None) -> list[str]: ...

    async def purge(self, limit: int) -> int: ...

    async def wake_socket(self) -> int | None: ...

    def woken(self) -> None: ...

    async def close(self) -> None: ...


SOURCES = {"sqlite": "sqlite", "postgresql": "postgres", "postgres": "postgres"}
"""Schemes, and the module that serves them."""


def open_source(url: str) -> Source:
    source: Source = _opener(url)("_sync")
    return source


def open_async_source(url: str) -> AsyncSource:
    source: AsyncSource = _opener(url)("_async")
    return source


def _opener(url: object) -> Any:
    if not isinstance(url, str) or (scheme := url.partition("://")[0]) not in SOURCES or "://" not in url:
        shown = repr(redact(url)) if isinstance(url, str) else f"a {type(url).__qualname__}"
        raise ConfigError(
            f"{shown} is not where an outbox can be; write postgresql://user@host/database or sqlite:///file.db"
        )
    module = SOURCES[scheme]

    def opened(flavor: str) -> Any:
        try:
            return import_module(f"dupeproof.outbox.{flavor}.{module}").open_source(parse_url(url))
        except ModuleNotFoundError as exc:
            if (exc.name or "").partition(".")[0] != "psycopg":
                raise
            raise ConfigError(
                f'{scheme}:// needs the psycopg driver, which is not installed; run: pip install "dupeproof[postgres]"'
            ) from exc

    return opened
