"""What an adapter for a kind of connection is."""

from abc import ABC, abstractmethod
from collections.abc import AsyncIterator, Mapping
from contextlib import asynccontextmanager
from typing import Any

from dupeproof.errors import ConfigError
from dupeproof.sql.autocommit import is_open
from dupeproof.sql.statements import Dialect, Style, rendered

Parameters = Mapping[str, Any]
_NONE: Parameters = {}
_IS_MISSING = "SELECT to_regclass(CAST(:table AS text)) IS NULL"
CLOSED = "this connection is closed; open one and begin a transaction on it"
NO_TRANSACTION = "there is no transaction on this connection, so {} even if your work fails; "


class AsyncCallerConnection(ABC):
    """A connection of the caller's. Statements name their parameters `:so`, whatever the driver wants."""

    dialect: Dialect
    style: Style
    """How the driver wants its parameters."""
    undoes = True
    """Whether savepoints undo all that the caller did with it; not what a session keeps in memory."""

    @property
    @abstractmethod
    def in_transaction(self) -> bool:
        """Whether what is executed now can still be rolled back by the caller."""

    @property
    @abstractmethod
    def driver_connection(self) -> Any:
        """What is at the bottom of it."""

    @property
    def is_open(self) -> bool:
        """Whether a transaction is open just now; one that is not may begin with the next statement."""
        return is_open(self.driver_connection)

    @property
    @abstractmethod
    def how_to_begin(self) -> str:
        """How a transaction is opened on this kind of connection, for people."""

    @abstractmethod
    async def run(self, text: str, parameters: Any) -> list[tuple[Any, ...]]:
        """One statement as the driver wants it. Its rows, if it has any, as plain tuples."""

    @abstractmethod
    async def run_counting(self, text: str, parameters: Any) -> int:
        """The same for a statement without rows: how many it wrote."""

    async def count(self, statement: str, parameters: Parameters = _NONE) -> int:
        text, pick = rendered(statement, self.style)
        return await self.run_counting(text, pick(parameters))

    async def execute(self, statement: str, parameters: Parameters = _NONE) -> list[tuple[Any, ...]]:
        text, pick = rendered(statement, self.style)
        return await self.run(text, pick(parameters))

    def check_transaction(self, alone: str = "what is marked would stay") -> None:
        """`alone` is what would happen without one."""
        if not self.in_transaction:
            raise ConfigError(NO_TRANSACTION.format(alone) + self.how_to_begin)

    async def would_fail_without(self, table: str) -> bool:
        """Whether the table is missing and a statement about it would take the whole transaction with it."""
        if self.dialect != "postgresql":
            return False
        [(missing,)] = await self.execute(_IS_MISSING, {"table": table})
        return bool(missing)

    async def set_savepoint(self) -> None:
        """Where `undo_to_savepoint` leads back to, from now on. Only inside a transaction."""
        await self.execute("SAVEPOINT dupeproof")

    async def undo_to_savepoint(self) -> None:
        """Nothing is left of what was done since, errors included, and the transaction goes on."""
        await self.execute("ROLLBACK TO SAVEPOINT dupeproof")

    @asynccontextmanager
    async def transaction(self) -> AsyncIterator[None]:
        """The caller's, where there is one, and else one of its own."""
        if self.in_transaction:
            yield
        else:
            async with self._bracket("BEGIN", "ROLLBACK", "COMMIT"):
                yield

    @asynccontextmanager
    async def _bracket(self, begin: str, undo: str, end: str) -> AsyncIterator[None]:
        await self.execute(begin)
        try:
            yield
        except BaseException:
            await self.execute(undo)
            raise
        await self.execute(end)
