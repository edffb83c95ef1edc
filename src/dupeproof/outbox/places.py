"""Where the tables of a stepwise outbox are: an SQLite file, or a MariaDB or MySQL server."""

import sqlite3
from collections.abc import Callable
from typing import TypeVar

from dupeproof.core.clock import system_clock
from dupeproof.outbox.relay_statements import NOW_IN_MYSQL
from dupeproof.sql import CallerConnection, adapt
from dupeproof.stores.mysql.connection import Database as MySQLDatabase
from dupeproof.stores.sqlite import open_database
from dupeproof.stores.sqlite.connection import Database as SQLiteDatabase
from dupeproof.stores.sqlite.connection import transaction
from dupeproof.stores.urls import StoreURL

R = TypeVar("R")


class SQLitePlace:
    """Whoever writes has the file to itself, and the clock is that of the one machine it can be used on."""

    def __init__(self, database: SQLiteDatabase) -> None:
        self._database = database

    @classmethod
    def open(cls, url: StoreURL) -> "SQLitePlace":
        return cls(open_database(url))

    def look(self, work: Callable[[CallerConnection, int], R]) -> R:
        return self._database.run(lambda connection: work(adapt(connection), system_clock()))

    def decide(self, work: Callable[[CallerConnection, int], R]) -> R:
        def decided(connection: sqlite3.Connection) -> R:
            with transaction(connection):
                return work(adapt(connection), system_clock())

        return self._database.run(decided)

    def close(self) -> None:
        self._database.close()


class MySQLPlace:
    def __init__(self, database: MySQLDatabase) -> None:
        self._database = database

    @classmethod
    def open(cls, url: StoreURL) -> "MySQLPlace":
        return cls(MySQLDatabase(url))

    def look(self, work: Callable[[CallerConnection, int], R]) -> R:
        """A transaction that only reads; where nothing is locked, its end changes nothing."""
        return self.decide(work)

    def decide(self, work: Callable[[CallerConnection, int], R]) -> R:
        def decided(adapted: CallerConnection) -> R:
            [(now,)] = adapted.execute(NOW_IN_MYSQL)
            return work(adapted, now)

        return self._database.transact(decided)

    def close(self) -> None:
        self._database.close()
