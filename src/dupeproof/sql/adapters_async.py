# No twin: the kinds of connection differ.
"""From a connection to the adapter of its kind."""

from collections.abc import Awaitable, Callable
from typing import Any

from dupeproof.sql.asyncpg_async import Asyncpg
from dupeproof.sql.kinds import kind_of
from dupeproof.sql.protocols_async import AsyncCallerConnection
from dupeproof.sql.psycopg_async import adapt_psycopg
from dupeproof.sql.sqlalchemy_async import adapt_connection, adapt_session

_ADAPTERS: dict[str, Callable[[Any], AsyncCallerConnection]] = {
    "asyncpg.connection.Connection": Asyncpg,
    "asyncpg.pool.PoolConnectionProxy": Asyncpg,
}
_AWAITED: dict[str, Callable[[Any], Awaitable[AsyncCallerConnection]]] = {
    "psycopg.AsyncConnection": adapt_psycopg,
    "sqlalchemy.ext.asyncio.engine.AsyncConnection": adapt_connection,
    "sqlalchemy.ext.asyncio.session.AsyncSession": adapt_session,
    "sqlalchemy.ext.asyncio.scoping.async_scoped_session": adapt_session,
}


async def adapt_async(connection: object) -> AsyncCallerConnection:
    kind = kind_of(type(connection), is_async=True)  # type: ignore[arg-type] # classes are hashable
    if kind in _AWAITED:
        return await _AWAITED[kind](connection)
    return _ADAPTERS[kind](connection)
