# No twin: asyncpg is async only.
"""asyncpg's connection, or one of its pool."""

from typing import Any

from dupeproof.errors import ConfigError
from dupeproof.sql.protocols_async import CLOSED, AsyncCallerConnection


class Asyncpg(AsyncCallerConnection):
    dialect = "postgresql"
    style = "numeric_dollar"

    def __init__(self, connection: Any) -> None:
        if connection.is_closed():
            raise ConfigError(CLOSED)
        self._connection = connection

    @property
    def in_transaction(self) -> bool:
        return bool(self._connection.is_in_transaction())

    @property
    def driver_connection(self) -> Any:
        return self._connection

    @property
    def how_to_begin(self) -> str:
        return "write: async with connection.transaction(): …"

    async def run(self, text: str, parameters: Any) -> list[tuple[Any, ...]]:
        return [tuple(row) for row in await self._connection.fetch(text, *(parameters or ()))]

    async def run_counting(self, text: str, parameters: Any) -> int:
        status = await self._connection.execute(text, *(parameters or ()))  # such as INSERT 0 1
        return int(status.rpartition(" ")[2])
