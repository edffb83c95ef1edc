# Written by tools/twins.py from src/dupeproof/sql/psycopg_async.py; change that file instead.
"""psycopg's connection."""

from typing import Any

from dupeproof.sql.autocommit import psycopg_alone
from dupeproof.sql.protocols import CallerConnection


class Psycopg(CallerConnection):
    dialect = "postgresql"
    style = "pyformat"

    def __init__(self, connection: Any) -> None:
        self._connection = connection

    @property
    def in_transaction(self) -> bool:
        """Without autocommit psycopg opens one by itself."""
        return not psycopg_alone(self._connection)

    @property
    def driver_connection(self) -> Any:
        return self._connection

    @property
    def how_to_begin(self) -> str:
        return "write: with connection.transaction(): …"

    def run(self, text: str, parameters: Any) -> list[tuple[Any, ...]]:
        cursor = self._executed(text, parameters)
        return cursor.fetchall() if cursor.description else []

    def run_counting(self, text: str, parameters: Any) -> int:
        cursor = self._executed(text, parameters)
        return int(cursor.rowcount)

    def _executed(self, text: str, parameters: Any) -> Any:
        from psycopg.rows import tuple_row  # noqa: PLC0415 - an extra

        # A cursor of our own with plain rows: the connection may be set up to give others.
        cursor = self._connection.cursor(row_factory=tuple_row)
        if not self._connection.pgconn.pipeline_status:
            return cursor.execute(text, parameters or None)
        with self._connection.pipeline():  # one inside another waits for its answers
            return cursor.execute(text, parameters or None)


def adapt_psycopg(connection: Any) -> Psycopg:
    if connection.pgconn.pipeline_status and connection.autocommit:
        with connection.pipeline():
            pass  # what was sent before is answered now, so the transaction status is known
    return Psycopg(connection)
