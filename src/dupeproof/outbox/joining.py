"""The caller's connection behind one interface: its dialect, whether a transaction is open, and `execute`."""

import sqlite3
import sys
from collections.abc import Sequence
from typing import Any, Literal, NoReturn, Protocol

from dupeproof.errors import ConfigError

Dialect = Literal["postgresql", "sqlite", "mysql"]


class Joined(Protocol):
    dialect: Dialect
    connection: Any

    @property
    def in_transaction(self) -> bool:
        """Whether what is executed is part of a transaction that the caller ends."""
        ...

    def execute(self, statement: str, parameters: Sequence[Any] = ()) -> None: ...

    def execute_many(self, statement: str, rows: Sequence[Sequence[Any]]) -> None: ...


class AsyncJoined(Protocol):
    dialect: Dialect
    connection: Any

    @property
    def in_transaction(self) -> bool: ...

    async def execute(self, statement: str, parameters: Sequence[Any] = ()) -> None: ...

    async def execute_many(self, statement: str, rows: Sequence[Sequence[Any]]) -> None: ...


def join(connection: Any) -> Joined:
    if isinstance(connection, sqlite3.Connection):
        return _SQLite(connection)
    if _is_psycopg(connection, "Connection"):
        return _Psycopg(connection)
    return _refuse(connection, "a psycopg.Connection or a sqlite3.Connection")


def join_async(connection: Any) -> AsyncJoined:
    if _is_psycopg(connection, "AsyncConnection"):
        return _AsyncPsycopg(connection)
    return _refuse(connection, "a psycopg.AsyncConnection")


class _SQLite:
    dialect: Dialect = "sqlite"

    def __init__(self, connection: sqlite3.Connection) -> None:
        self.connection = connection

    @property
    def in_transaction(self) -> bool:
        """With an isolation level sqlite3 opens a transaction by itself."""
        connection = self.connection
        by_itself = connection.isolation_level is not None and getattr(connection, "autocommit", -1) == -1
        return connection.in_transaction or by_itself

    def execute(self, statement: str, parameters: Sequence[Any] = ()) -> None:
        self.connection.execute(statement, parameters)

    def execute_many(self, statement: str, rows: Sequence[Sequence[Any]]) -> None:
        self.connection.executemany(statement, rows)


class _AnyPsycopg:
    dialect: Dialect = "postgresql"

    def __init__(self, connection: Any) -> None:
        self.connection = connection

    @property
    def in_transaction(self) -> bool:
        """Without autocommit psycopg opens a transaction by itself."""
        connection = self.connection
        return not connection.autocommit or connection.info.transaction_status.name != "IDLE"


class _Psycopg(_AnyPsycopg):
    def execute(self, statement: str, parameters: Sequence[Any] = ()) -> None:
        self.connection.execute(statement, parameters)

    def execute_many(self, statement: str, rows: Sequence[Sequence[Any]]) -> None:
        self.connection.execute(statement, [list(column) for column in zip(*rows, strict=True)])


class _AsyncPsycopg(_AnyPsycopg):
    async def execute(self, statement: str, parameters: Sequence[Any] = ()) -> None:
        await self.connection.execute(statement, parameters)

    async def execute_many(self, statement: str, rows: Sequence[Sequence[Any]]) -> None:
        await self.connection.execute(statement, [list(column) for column in zip(*rows, strict=True)])


def _is_psycopg(connection: object, kind: str) -> bool:
    psycopg = sys.modules.get("psycopg")
    return psycopg is not None and isinstance(connection, getattr(psycopg, kind))


def _refuse(connection: object, usable: str) -> NoReturn:
    raise ConfigError(f"the outbox joins the transaction of {usable}, not of {type(connection).__qualname__}")
