# No twin: the kinds of connection differ.
"""From a connection to the adapter of its kind."""

from collections.abc import Awaitable, Callable
from typing import Any

from dupeproof.sql.asyncpg_async import Asyncpg
from dupeproof.sql.kinds import kind_of
from dupeproof.sql.protocols_async import AsyncJoined
from dupeproof.sql.psycopg_async import join_psycopg
from dupeproof.sql.sqlalchemy_async import join_connection, join_session

_ADAPTERS: dict[str, Callable[[Any], AsyncJoined]] = {
    "asyncpg.connection.Connection": Asyncpg,
    "asyncpg.pool.PoolConnectionProxy": Asyncpg,
}
_AWAITED: dict[str, Callable[[Any], Awaitable[AsyncJoined]]] = {
    "psycopg.AsyncConnection": join_psycopg,
    "sqlalchemy.ext.asyncio.engine.AsyncConnection": join_connection,
    "sqlalchemy.ext.asyncio.session.AsyncSession": join_session,
    "sqlalchemy.ext.asyncio.scoping.async_scoped_session": join_session,
}


async def join_async(connection: object) -> AsyncJoined:
    kind = kind_of(type(connection), is_async=True)  # type: ignore[arg-type] # classes are hashable
    if kind in _AWAITED:
        return await _AWAITED[kind](connection)
    return _ADAPTERS[kind](connection)
