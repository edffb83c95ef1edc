# No twin: Django's connections are sync only.
"""Django's connection: `django.db.connection`, or one of `django.db.connections`."""

from typing import Any

from dupeproof.sql.kinds import supported_dialect
from dupeproof.sql.protocols import CallerConnection


class Django(CallerConnection):
    style = "format"

    def __init__(self, connection: Any) -> None:
        self._connection = connection
        self.dialect = supported_dialect(connection.vendor)

    @property
    def in_transaction(self) -> bool:
        return bool(self._connection.in_atomic_block or not self._connection.get_autocommit())

    @property
    def driver_connection(self) -> Any:
        return self._connection.connection

    @property
    def how_to_begin(self) -> str:
        return "write: with transaction.atomic(): …"

    def run(self, text: str, parameters: Any) -> list[tuple[Any, ...]]:
        with self._connection.cursor() as cursor:
            cursor.execute(text, parameters or None)
            return list(map(tuple, cursor.fetchall())) if cursor.description else []

    def run_counting(self, text: str, parameters: Any) -> int:
        with self._connection.cursor() as cursor:
            cursor.execute(text, parameters or None)
            return int(cursor.rowcount)
