"""Whether a driver commits each statement by itself, and whether it has a transaction open, asked of the driver: what stands above it need not know."""

from collections.abc import Callable
from typing import Any

_IN_TRANSACTION = 1
"""A flag in what MariaDB and MySQL say with every answer."""


def psycopg_alone(connection: Any) -> bool:
    return bool(connection.autocommit) and connection.info.transaction_status.name == "IDLE"


def pymysql_alone(connection: Any) -> bool:
    return bool(connection.get_autocommit()) and not connection.server_status & _IN_TRANSACTION


def sqlite3_alone(connection: Any) -> bool:
    by_itself = connection.isolation_level is not None and getattr(connection, "autocommit", -1) == -1
    return not connection.in_transaction and not by_itself


_ASKED: dict[str, Callable[[Any], bool]] = {
    "psycopg": psycopg_alone,
    "pymysql": pymysql_alone,
    "aiomysql": lambda connection: (
        bool(connection.get_autocommit()) and not connection.get_transaction_status()
    ),
    "sqlite3": sqlite3_alone,
    "aiosqlite": sqlite3_alone,
}


_OPEN: dict[str, Callable[[Any], bool]] = {
    "psycopg": lambda connection: connection.info.transaction_status.name != "IDLE",
    "asyncpg": lambda connection: connection.is_in_transaction(),
    "pymysql": lambda connection: bool(connection.server_status & _IN_TRANSACTION),
    "aiomysql": lambda connection: connection.get_transaction_status(),
    "sqlite3": lambda connection: connection.in_transaction,
    "aiosqlite": lambda connection: connection.in_transaction,
}


def is_open(driver_connection: Any) -> bool:
    """Whether a transaction is open just now; False where nobody knows. Costs no question to the server."""
    asked = _of_driver(_OPEN, driver_connection)
    return asked is not None and bool(asked(driver_connection))


def commits_alone(driver_connection: Any) -> bool:
    """False where nobody knows: SQLAlchemy's own word is taken then."""
    asked = _of_driver(_ASKED, driver_connection)
    return asked is not None and asked(driver_connection)


def _of_driver(table: dict[str, Callable[[Any], bool]], connection: Any) -> Callable[[Any], bool] | None:
    """A class made from the driver's is one of the driver's."""
    modules = (each.__module__.partition(".")[0] for each in type(connection).__mro__)
    return next((table[module] for module in modules if module in table), None)
