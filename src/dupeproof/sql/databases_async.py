# No twin: asyncpg is async only.
"""Transactions opened for a consumer that has no connection of its own."""

from collections.abc import AsyncIterator, Callable
from contextlib import AbstractAsyncContextManager, asynccontextmanager
from functools import cache
from typing import Any

from dupeproof.errors import ConfigError
from dupeproof.sql.database_option import (
    driver,
    engine_url,
    is_mysql,
    not_to_commit,
    opener_of,
    reaching,
    shown_scheme,
)


def opened(database: Any) -> Callable[[], AbstractAsyncContextManager[Any]]:
    """A function that begins a transaction: on the engine or pool given, or for a URL on a new connection."""
    if not isinstance(database, str):
        opener = opener_of(database, _OPENERS)
        return lambda: opener(database)
    scheme = database.partition("://")[0]
    if scheme in ("postgresql", "postgres"):
        made = cache(lambda: driver("dupeproof.sql.hosts_async", "postgres").AsyncDatabase(database))
        return lambda: made().transaction()
    if is_mysql(database):
        return lambda: _mysql(database)
    raise ConfigError(
        f"database= takes postgresql://… or mysql://…, not {shown_scheme(database)}; for others give an AsyncEngine of SQLAlchemy"
    )


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


@asynccontextmanager
async def _mysql(url: str) -> AsyncIterator[Any]:
    sqlalchemy = driver("sqlalchemy.ext.asyncio", "mysql")
    pool = driver("sqlalchemy.pool", "mysql")
    with reaching():
        engine = sqlalchemy.create_async_engine(engine_url(url, "aiomysql"), poolclass=pool.NullPool)
        connection = await engine.connect()
    try:
        async with connection.begin():
            with not_to_commit(connection.sync_connection):
                yield connection
    finally:
        await connection.close()


_OPENERS = {
    "sqlalchemy.ext.asyncio.engine.AsyncEngine": _engine,
    "sqlalchemy.ext.asyncio.session.async_sessionmaker": _factory,
    "asyncpg.pool.Pool": _asyncpg,
    "psycopg_pool.pool_async.AsyncConnectionPool": _psycopg,
}
