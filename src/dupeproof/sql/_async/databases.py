# No twin: asyncpg is async only.
"""Transactions opened for a consumer that has no connection of its own."""

from collections.abc import AsyncIterator, Callable
from contextlib import AbstractAsyncContextManager, asynccontextmanager
from typing import Any

from dupeproof.errors import ConfigError
from dupeproof.sql.databases import ASYNC, opener_of


def opened(database: Any) -> Callable[[], AbstractAsyncContextManager[Any]]:
    """A function that begins a transaction: on the engine or pool given, or for a URL on a new connection."""
    if not isinstance(database, str):
        opener = opener_of(database, {**ASYNC, "asyncpg.pool.Pool": _asyncpg})
        return lambda: opener(database)
    scheme = database.partition("://")[0]
    if scheme in ("postgresql", "postgres"):
        return lambda: _postgres(database)
    raise ConfigError(
        f"database= takes postgresql://…, not {scheme}://; for others give an AsyncEngine of SQLAlchemy"
    )


@asynccontextmanager
async def _asyncpg(pool: Any) -> AsyncIterator[Any]:
    async with pool.acquire() as connection, connection.transaction():
        yield connection


@asynccontextmanager
async def _postgres(url: str) -> AsyncIterator[Any]:
    import psycopg  # noqa: PLC0415 - an extra

    async with await psycopg.AsyncConnection.connect(url) as connection:
        yield connection
