"""Which kinds of connection there are. They are recognised by the names of their types, so no driver is imported."""

from functools import cache
from typing import cast, get_args

from dupeproof.errors import ConfigError
from dupeproof.sql.statements import Dialect

SYNC = {
    "sqlite3.Connection": "sqlite3.Connection",
    "psycopg.Connection": "psycopg.Connection",
    "pymysql.connections.Connection": "pymysql.Connection",
    "sqlalchemy.engine.base.Connection": "SQLAlchemy's Connection",
    "sqlalchemy.orm.session.Session": "SQLAlchemy's Session",
    "sqlalchemy.orm.scoping.scoped_session": "SQLAlchemy's scoped_session",
    "django.db.backends.base.base.BaseDatabaseWrapper": "django.db.connection",
    "django.utils.connection.ConnectionProxy": "django.db.connection",
}
ASYNC = {
    "psycopg.AsyncConnection": "psycopg.AsyncConnection",
    "asyncpg.connection.Connection": "asyncpg.Connection",
    "asyncpg.pool.PoolConnectionProxy": "asyncpg.Connection",
    "sqlalchemy.ext.asyncio.engine.AsyncConnection": "SQLAlchemy's AsyncConnection",
    "sqlalchemy.ext.asyncio.session.AsyncSession": "SQLAlchemy's AsyncSession",
    "sqlalchemy.ext.asyncio.scoping.async_scoped_session": "SQLAlchemy's async_scoped_session",
}


@cache
def kind_of(cls: type, *, is_async: bool) -> str:
    """The name of the type, or of one of its bases, in the table."""
    mine, others = (ASYNC, SYNC) if is_async else (SYNC, ASYNC)
    names = [f"{each.__module__}.{each.__qualname__}" for each in cls.__mro__]
    for name in names:
        if name in mine:
            return name
    usable = ", ".join(dict.fromkeys(mine.values()))
    text = f"this joins the transaction of one of {usable}; not of a {cls.__qualname__}"
    if any(name in others for name in names):
        text += f", or use the {'sync' if is_async else 'async'} class for this one"
    raise ConfigError(text)


def supported_dialect(name: str) -> Dialect:
    if name in get_args(Dialect):
        return cast("Dialect", name)
    raise ConfigError(f"there is no support for {name}; use PostgreSQL, SQLite, MariaDB or MySQL")
