# No twin: sqlite3 is sync only.
"""Transactions opened for a consumer that has no connection of its own."""

import sqlite3
from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager, closing, contextmanager
from functools import cache
from typing import Any, Self

from dupeproof.errors import ConfigError
from dupeproof.sql.database_option import (
    NOT_YOURS,
    driver,
    engine_url,
    is_mysql,
    not_to_commit,
    opener_of,
    reaching,
    shown_scheme,
)


def opened(database: Any) -> Callable[[], AbstractContextManager[Any]]:
    """A function that begins a transaction: on the engine or pool given, or for a URL on a new connection."""
    if not isinstance(database, str):
        opener = opener_of(database, _OPENERS)
        return lambda: opener(database)
    scheme, _, rest = database.partition("://")
    if scheme == "sqlite" and rest[:1] == "/" and rest[1:]:
        return lambda: _sqlite(rest[1:].partition("?")[0])
    if scheme in ("postgresql", "postgres"):
        made = cache(lambda: driver("dupeproof.sql.hosts", "postgres").Database(database))
        return lambda: made().transaction()
    if is_mysql(database):
        return lambda: _mysql(database)
    raise ConfigError(
        f"database= takes postgresql://…, mysql://… or sqlite:///file.db, not {shown_scheme(database)}; "
        "for others give an SQLAlchemy engine"
    )


class _Lent(sqlite3.Connection):
    """To work with, not to commit."""

    def commit(self) -> None:
        raise ConfigError(NOT_YOURS)

    def rollback(self) -> None:
        raise ConfigError(NOT_YOURS)

    def __enter__(self) -> Self:
        raise ConfigError(NOT_YOURS)


@contextmanager
def _sqlite(path: str) -> Iterator[sqlite3.Connection]:
    """The write lock is taken first: what is read inside cannot be outdated."""
    with closing(sqlite3.connect(path, isolation_level=None, factory=_Lent)) as connection:
        connection.execute("BEGIN IMMEDIATE")
        try:
            yield connection
        except BaseException:
            if connection.in_transaction:
                connection.execute("ROLLBACK")
            raise
        if connection.in_transaction:
            connection.execute("COMMIT")


@contextmanager
def _engine(engine: Any) -> Iterator[Any]:
    with engine.begin() as connection, not_to_commit(connection):
        yield connection


@contextmanager
def _factory(factory: Any) -> Iterator[Any]:
    with factory.begin() as session, not_to_commit(session):
        yield session


@contextmanager
def _pooled(pool: Any) -> Iterator[Any]:
    # Inside a transaction of psycopg's own nobody else can commit.
    with pool.connection() as connection, connection.transaction():
        yield connection


@contextmanager
def _mysql(url: str) -> Iterator[Any]:
    sqlalchemy = driver("sqlalchemy", "mysql")
    with reaching():
        engine = sqlalchemy.create_engine(engine_url(url, "pymysql"), poolclass=sqlalchemy.pool.NullPool)
        connection = engine.connect()
    with connection, connection.begin(), not_to_commit(connection):
        yield connection


_OPENERS = {
    "sqlalchemy.engine.base.Engine": _engine,
    "sqlalchemy.orm.session.sessionmaker": _factory,
    "psycopg_pool.pool.ConnectionPool": _pooled,
}
