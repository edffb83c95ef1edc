# No twin: sqlite3 connections are sync only.
"""Python's own sqlite3 connection."""

import sqlite3
from typing import Any

from dupeproof.sql.autocommit import sqlite3_alone
from dupeproof.sql.protocols import CallerConnection


class Sqlite(CallerConnection):
    dialect = "sqlite"
    style = "named"

    def __init__(self, connection: sqlite3.Connection) -> None:
        self._connection = connection

    @property
    def in_transaction(self) -> bool:
        """With an isolation level sqlite3 opens one by itself, before the first statement that writes."""
        return not sqlite3_alone(self._connection)

    @property
    def driver_connection(self) -> Any:
        return self._connection

    @property
    def how_to_begin(self) -> str:
        return 'call connection.execute("BEGIN IMMEDIATE") first'

    def run(self, text: str, parameters: Any) -> list[tuple[Any, ...]]:
        # A cursor of our own with plain rows: the connection may be set up to give others.
        cursor = self._connection.cursor()
        cursor.row_factory = None
        return cursor.execute(text, parameters).fetchall()

    def run_counting(self, text: str, parameters: Any) -> int:
        return self._connection.execute(text, parameters).rowcount
