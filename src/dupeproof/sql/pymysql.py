# No twin: PyMySQL's connections are sync only.
"""PyMySQL's connection."""

from typing import Any

from dupeproof.errors import ConfigError
from dupeproof.sql.autocommit import pymysql_alone
from dupeproof.sql.protocols import CLOSED, CallerConnection


class Pymysql(CallerConnection):
    dialect = "mysql"
    style = "pyformat"

    def __init__(self, connection: Any) -> None:
        if not connection.open:
            raise ConfigError(CLOSED)
        self._connection = connection

    @property
    def in_transaction(self) -> bool:
        return not pymysql_alone(self._connection)

    @property
    def driver_connection(self) -> Any:
        return self._connection

    @property
    def how_to_begin(self) -> str:
        return "call connection.begin() first"

    def run(self, text: str, parameters: Any) -> list[tuple[Any, ...]]:
        with self._plain_cursor() as cursor:
            cursor.execute(text, parameters or None)
            return list(cursor.fetchall())

    def run_counting(self, text: str, parameters: Any) -> int:
        with self._plain_cursor() as cursor:
            return int(cursor.execute(text, parameters or None))

    def _plain_cursor(self) -> Any:
        from pymysql.cursors import Cursor  # noqa: PLC0415 - an extra

        # The connection may be set up to give rows of another kind.
        return self._connection.cursor(Cursor)
