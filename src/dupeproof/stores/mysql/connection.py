"""A connection of our own to MariaDB or MySQL: opened on first use, one for each process, and again after it was lost."""

import os
import random
import re
import threading
import time
from collections.abc import Callable
from typing import Any, TypeVar
from urllib.parse import unquote

from dupeproof.errors import ConfigError, RetryTransaction, StoreUnavailable
from dupeproof.sql import CallerConnection, Translated, adapt
from dupeproof.sql.statements import split
from dupeproof.stores.mysql import SCHEMA
from dupeproof.stores.urls import StoreURL

R = TypeVar("R")
_TRIES = 5
_LONGEST_PAUSE = 0.05
_PORT = 3306
_READ_COMMITTED = "SET SESSION TRANSACTION ISOLATION LEVEL READ COMMITTED"
"""A statement sees all that was committed before it, and locks nothing between rows."""
_NAMES = re.findall(r"^CREATE TABLE IF NOT EXISTS (\w+)", SCHEMA, flags=re.MULTILINE)
_TABLES = (
    "SELECT count(*) FROM information_schema.tables WHERE table_schema = DATABASE() "  # noqa: S608 - ours
    f"AND table_name IN ({', '.join(map(repr, _NAMES))})"
)


class Database:
    """Several threads may use it, one after the other."""

    def __init__(self, url: StoreURL) -> None:
        import pymysql  # noqa: PLC0415 - an extra

        self._driver: Any = pymysql
        self._arguments = _arguments(url)
        self._shown = str(url)
        self._lock = threading.Lock()
        self._connection: Any = None
        self._pid = os.getpid()

    def transact(self, work: Callable[[CallerConnection], R]) -> R:
        """What `work` gives, in a transaction; again when the database has rolled it back to break a deadlock."""
        self._look_around()
        with self._lock:
            for left in reversed(range(_TRIES)):
                try:
                    return self._transact(work)
                except RetryTransaction as exc:
                    if not left:
                        raise StoreUnavailable(f"{self._shown}: {exc}") from exc
                time.sleep(random.uniform(0, _LONGEST_PAUSE))  # noqa: S311 - no secret
        raise AssertionError

    def _transact(self, work: Callable[[CallerConnection], R]) -> R:
        try:
            with Translated():
                connection = self._connected()
                connection.begin()
                result = work(adapt(connection))
                connection.commit()
                return result
        except RetryTransaction:
            self._roll_back()
            raise
        except (self._driver.Error, StoreUnavailable) as exc:
            self._drop()
            raise StoreUnavailable(f"{self._shown}: {_reason(exc)}") from exc
        except BaseException:
            self._drop()  # the server rolls back what is lost
            raise

    def _roll_back(self) -> None:
        try:
            self._connection.rollback()
        except self._driver.Error:
            self._drop()

    def _look_around(self) -> None:
        """A forked child leaves its parent's connection alone, and its lock, which nobody here would open again."""
        if self._pid != os.getpid():
            self._lock = threading.Lock()
            self._connection, self._pid = None, os.getpid()

    def _connected(self) -> Any:
        if self._connection is None:
            self._connection = connection = self._driver.connect(**self._arguments)
            adapted = adapt(connection)
            adapted.execute(_READ_COMMITTED)
            [(there,)] = adapted.execute(_TABLES)
            # Looked for first: whoever may not make tables can still use them.
            for statement in split(SCHEMA) if there < len(_NAMES) else ():
                adapted.execute(statement)
        return self._connection

    def _drop(self) -> None:
        connection, self._connection = self._connection, None
        if connection is not None and connection.open:
            connection.close()

    def close(self) -> None:
        self._look_around()
        with self._lock:
            self._drop()


def _arguments(url: StoreURL) -> dict[str, Any]:
    url.take(("timeout", "charset"))
    parts = url.parts
    database = unquote(parts.path.lstrip("/"))
    if not database or not parts.hostname:
        raise ConfigError(
            f"{url} names no database; write mysql://user:password@host:{_PORT}/database?timeout=5s"
        )
    return {
        "host": parts.hostname,
        "port": parts.port or _PORT,
        "user": unquote(parts.username or ""),
        "password": unquote(parts.password or ""),
        "database": database,
        "charset": "utf8mb4",
        "autocommit": True,  # until a transaction is begun
        "binary_prefix": True,
        "connect_timeout": max(1, round(url.timeout)),
        "read_timeout": url.timeout,
        "write_timeout": url.timeout,
    }


def _reason(exc: Exception) -> str:
    """By number and kind: the driver's text may quote what was sent."""
    if isinstance(exc, StoreUnavailable):
        return str(exc)
    number = exc.args[0] if exc.args and isinstance(exc.args[0], int) else None
    return f"{type(exc).__name__}{f' {number}' if number else ''}: it cannot be reached, or refuses"
