# No twin: asyncpg is async only.
"""Transactions opened for a consumer that has no connection of its own."""

from collections.abc import AsyncGenerator, AsyncIterator, Awaitable, Callable
from contextlib import AbstractAsyncContextManager, asynccontextmanager
from functools import partial
from typing import Any

from dupeproof.errors import ConfigError
from dupeproof.process_local_async import PerLoop
from dupeproof.sql import url_engines
from dupeproof.sql.database_option import (
    driver,
    engine_url,
    no_url,
    not_to_commit,
    opener_of,
    reaching,
)
from dupeproof.sql.django_alias import alias_of


class AsyncDatabase:
    """Calling it begins a transaction: on the engine or pool given, or on a kept connection to the URL."""

    def __init__(
        self,
        begin: Callable[[], AbstractAsyncContextManager[Any]],
        close: Callable[[], Awaitable[None]],
    ) -> None:
        self._begin = begin
        self.close = close
        """Gives up what was opened here and is idle. It opens again when it is used again."""

    def __call__(self) -> AbstractAsyncContextManager[Any]:
        return self._begin()


def opened(database: Any) -> AsyncDatabase:
    """Nothing is connected yet; that happens with the first transaction."""
    if not isinstance(database, str):
        return AsyncDatabase(partial(opener_of(database, _OPENERS), database), _nothing)
    if alias_of(database) is not None:
        raise ConfigError(
            "Django's transactions are for threads only; use Inbox and a plain handler with "
            f"{database!r}, or give the async class a URL"
        )
    if (url := engine_url(database, is_async=True)) is not None:
        engine = _UrlEngine(url)
        return AsyncDatabase(engine.transaction, engine.close)
    if database.partition("://")[0] in ("postgresql", "postgres"):
        server = _Server(database)
        return AsyncDatabase(server.transaction, server.close)
    raise no_url(
        database, "postgresql://…, mysql://… or sqlite+aiosqlite:///file.db", "an AsyncEngine of SQLAlchemy"
    )


async def _nothing() -> None:
    """It is closed by whoever opened it."""


class _Server:
    """The driver is looked for when it is first used."""

    def __init__(self, url: str) -> None:
        self._url = url
        self._made: Any = None

    def _get(self) -> Any:
        if self._made is None:
            self._made = driver("dupeproof.sql.hosts_async", "postgres").AsyncDatabase(self._url)
        return self._made

    def transaction(self) -> AbstractAsyncContextManager[Any]:
        found: AbstractAsyncContextManager[Any] = self._get().transaction()
        return found

    async def close(self) -> None:
        await self._get().close()


class _OfLoop:
    """An engine, and what disposes of it when its loop ends: nobody else would be there to do it."""

    def __init__(self, engine: Any) -> None:
        self.engine = engine
        self._end: AsyncGenerator[None, None] | None = None

    async def watched(self) -> Any:
        if self._end is None:
            self._end = _disposing(self.engine)
            await anext(self._end)
        return self.engine


async def _disposing(engine: Any) -> AsyncGenerator[None, None]:
    """A loop that ends closes the generators that were begun in it."""
    try:
        yield
    finally:
        await engine.dispose()


class _UrlEngine:
    """SQLAlchemy's, one for each event loop."""

    def __init__(self, url: str) -> None:
        def create(place: Any, **options: Any) -> Any:
            return driver("sqlalchemy.ext.asyncio", "mysql").create_async_engine(place, **options)

        self._engines: PerLoop[_OfLoop] = PerLoop(
            lambda: _OfLoop(url_engines.made(url, create, is_async=True)),
            lambda left: left.engine.sync_engine.dispose(close=False),
        )

    @asynccontextmanager
    async def transaction(self) -> AsyncIterator[Any]:
        engine = await self._engines.get().watched()
        with reaching():
            connection = await engine.connect()
        try:
            async with connection.begin():
                with not_to_commit(connection.sync_connection):
                    yield connection
        finally:
            await connection.close()

    async def close(self) -> None:
        left = self._engines.take()
        if left is not None:
            await left.engine.dispose()


@asynccontextmanager
async def _asyncpg(pool: Any) -> AsyncIterator[Any]:
    async with pool.acquire() as connection, connection.transaction():
        yield connection


@asynccontextmanager
async def _psycopg(pool: Any) -> AsyncIterator[Any]:
    # Inside a transaction of psycopg's own nobody else can commit.
    async with pool.connection() as connection, connection.transaction():
        yield connection


@asynccontextmanager
async def _engine(engine: Any) -> AsyncIterator[Any]:
    async with engine.begin() as connection:
        with not_to_commit(connection.sync_connection):
            yield connection


@asynccontextmanager
async def _factory(factory: Any) -> AsyncIterator[Any]:
    async with factory.begin() as session:
        with not_to_commit(session.sync_session):
            yield session


_OPENERS = {
    "sqlalchemy.ext.asyncio.engine.AsyncEngine": _engine,
    "sqlalchemy.ext.asyncio.session.async_sessionmaker": _factory,
    "asyncpg.pool.Pool": _asyncpg,
    "psycopg_pool.pool_async.AsyncConnectionPool": _psycopg,
}
