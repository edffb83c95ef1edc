"""What the store says its statements on: connections of our own, or of the caller's pool or engine."""

from collections.abc import Sequence
from contextlib import AbstractAsyncContextManager
from typing import Any, Protocol

from dupeproof.sql import AsyncCallerConnection
from dupeproof.stores.postgres.queries import PreparedQuery
from dupeproof.stores.postgres.rows import Answer

Rows = list[tuple[Any, ...]]


class AsyncStoreConnection(Protocol):
    """Answers come before `deadline`, as far as the driver can be told. Errors are those of psycopg, whatever the driver."""

    deadline: float
    heard: float
    """When it was last given back in good order; zero for one that is new."""
    checked: float
    """When the server's clock was read."""

    @property
    def adapted(self) -> AsyncCallerConnection:
        """For statements that are run on the caller's connections too."""
        ...

    async def query(self, query: PreparedQuery, parameters: Sequence[bytes]) -> Answer: ...

    async def execute_all(self, statement: str, parameters: Sequence[Any] = ()) -> Rows: ...

    async def execute_in_time(self, statement: str, parameters: Sequence[Any]) -> Rows:
        """The same for a statement whose last parameter is the moment until which it may take effect."""
        ...

    def transaction_in_time(self) -> AbstractAsyncContextManager[None]: ...


class AsyncStorePool(Protocol):
    prepares: bool
    """Until a transaction pooler turns out to stand in between, which loses what was prepared."""

    async def take(self, deadline: float) -> Any:
        """An `AsyncStoreConnection` on which to say one thing. To be given back in any case."""
        ...

    async def give(self, connection: Any) -> None: ...

    def close(self) -> None: ...
