"""psycopg's connection."""

from typing import Any

from dupeproof.sql.autocommit import psycopg_alone
from dupeproof.sql.protocols_async import AsyncCallerConnection


class AsyncPsycopg(AsyncCallerConnection):
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
        return "write: async with connection.transaction(): …"

    async def run(self, text: str, parameters: Any) -> list[tuple[Any, ...]]:
        cursor = await self._executed(text, parameters)
        return await cursor.fetchall() if cursor.description else []

    async def run_counting(self, text: str, parameters: Any) -> int:
        cursor = await self._executed(text, parameters)
        return int(cursor.rowcount)

    async def _executed(self, text: str, parameters: Any) -> Any:
        from psycopg.rows import tuple_row  # noqa: PLC0415 - an extra

        # A cursor of our own with plain rows: the connection may be set up to give others.
        cursor = self._connection.cursor(row_factory=tuple_row)
        if not self._connection.pgconn.pipeline_status:
            return await cursor.execute(text, parameters or None)
        async with self._connection.pipeline():  # one inside another waits for its answers
            return await cursor.execute(text, parameters or None)


async def adapt_psycopg(connection: Any) -> AsyncPsycopg:
    if connection.pgconn.pipeline_status and connection.autocommit:
        async with connection.pipeline():
            pass  # what was sent before is answered now, so the transaction status is known
    return AsyncPsycopg(connection)
