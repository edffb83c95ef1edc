# No twin: asyncpg is async only.
"""A pool of asyncpg's, of which the store borrows connections."""

import time
from contextlib import suppress
from typing import Any

from dupeproof.sql.asyncpg_async import Asyncpg
from dupeproof.sql.database_option import driver
from dupeproof.sql.protocols_async import AsyncCallerConnection
from dupeproof.stores.postgres.callers_engine_async import ServerTime, translated
from dupeproof.stores.postgres.faults import Timeout
from dupeproof.stores.runtime_async import within

_MOST = 1_000
"""Connections whose server's clock is remembered. They come and go, and nobody says when."""


class OfPool:
    def __init__(self, pool: Any) -> None:
        self._pool = pool
        self._known: dict[int, ServerTime] = {}
        """By the process of the server: the pool gives the same connection as another object each time."""

    async def borrow(self, deadline: float) -> Any:
        try:
            return await within(deadline - time.monotonic(), self._pool.acquire)
        except TimeoutError as exc:
            raise Timeout("all connections of the pool are taken, or none can be made") from exc
        except Exception as exc:
            raise translated(exc) from exc

    def adapted(self, lent: Any) -> AsyncCallerConnection:
        return Asyncpg(lent)

    def known(self, lent: Any) -> ServerTime:
        if len(self._known) > _MOST:
            self._known.clear()
        found: ServerTime = self._known.setdefault(lent.get_server_pid(), ServerTime())
        return found

    async def give_back(self, lent: Any, *, broken: bool) -> None:
        """Where an answer is missing, it is not used again."""
        asyncpg = driver("asyncpg", "postgres")
        if broken:
            lent.terminate()
        # To give it back is to ask the server to forget its settings; one that is lost goes out of the pool by itself.
        with suppress(asyncpg.InterfaceError, asyncpg.PostgresError, OSError):
            await self._pool.release(lent)
