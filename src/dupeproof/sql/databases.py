# No twin: sqlite3 and Django are sync only.
"""Transactions opened for a consumer that has no connection of its own."""

import sqlite3
from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager, closing, contextmanager
from functools import partial
from typing import Any, Self

from dupeproof.errors import ConfigError
from dupeproof.process_local import PerProcess
from dupeproof.sql import url_engines
from dupeproof.sql.database_option import (
    NOT_YOURS,
    driver,
    engine_url,
    no_url,
    not_to_commit,
    opener_of,
    reaching,
)
from dupeproof.sql.django_alias import alias_of, transaction_of


class Database:
    """Calling it begins a transaction: on the engine, pool or alias given, or on a kept connection to the URL."""

    def __init__(self, begin: Callable[[], AbstractContextManager[Any]], close: Callable[[], None]) -> None:
        self._begin = begin
        self.close = close
        """Gives up what was opened here and is idle. It opens again when it is used again."""

    def __call__(self) -> AbstractContextManager[Any]:
        return self._begin()


def opened(database: Any) -> Database:
    """Nothing is connected yet; that happens with the first transaction."""
    if not isinstance(database, str):
        return Database(partial(opener_of(database, _OPENERS), database), _nothing)
    if (alias := alias_of(database)) is not None:
        return Database(partial(transaction_of, alias), _nothing)
    if (url := engine_url(database, is_async=False)) is not None:
        engine = _UrlEngine(url)
        return Database(engine.transaction, engine.close)
    scheme, _, rest = database.partition("://")
    if scheme == "sqlite" and rest[:1] == "/" and rest[1:]:
        return Database(partial(_sqlite, rest[1:].partition("?")[0]), _nothing)
    if scheme in ("postgresql", "postgres"):
        server = PerProcess(lambda: driver("dupeproof.sql.hosts", "postgres").Database(database), _leave)
        return Database(lambda: server.get().transaction(), lambda: server.get().close())
    raise no_url(database, "postgresql://…, mysql://… or sqlite:///file.db", "an SQLAlchemy engine")


def _nothing() -> None:
    """It is closed by whoever opened it, or was closed after its transaction."""


def _leave(_: Any) -> None:
    """What is left behind closes itself."""


class _UrlEngine:
    """SQLAlchemy's, one for each process."""

    def __init__(self, url: str) -> None:
        create = lambda place, **options: driver("sqlalchemy", "mysql").create_engine(place, **options)  # noqa: E731
        self._engines: PerProcess[Any] = PerProcess(
            partial(url_engines.made, url, create, is_async=False), _leave
        )

    @contextmanager
    def transaction(self) -> Iterator[Any]:
        engine = self._engines.get()
        with reaching():
            connection = engine.connect()
        with connection, connection.begin(), not_to_commit(connection):
            yield connection

    def close(self) -> None:
        engine = self._engines.take()
        if engine is not None:
            engine.dispose()


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


_OPENERS = {
    "sqlalchemy.engine.base.Engine": _engine,
    "sqlalchemy.orm.session.sessionmaker": _factory,
    "psycopg_pool.pool.ConnectionPool": _pooled,
}
