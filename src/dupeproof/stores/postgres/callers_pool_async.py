"""A pool or engine of the caller's: its connections, with its credentials, TLS and sockets, and our statements on them.

On a connection of psycopg the statements go past its cursors, as on one of our own. So it does not matter whether it is
set up for autocommit, with which row factory, adapters or prepared statements, and the deadlines are the same. Other
drivers of SQLAlchemy get the statements through SQLAlchemy; see callers_engine_async.
Nothing is closed here but a connection on which an answer is missing, and no setting of a session is changed.
"""

import time
from collections.abc import Callable, Sequence
from functools import partial
from importlib import import_module
from typing import Any, Protocol
from weakref import WeakKeyDictionary

import psycopg
from psycopg.pq import ConnStatus, TransactionStatus
from psycopg.pq.abc import PGconn, PGresult

from dupeproof import defaults
from dupeproof.core.durations import milliseconds
from dupeproof.errors import ConfigError
from dupeproof.sql.protocols_async import AsyncCallerConnection
from dupeproof.stores.clients import kind_of
from dupeproof.stores.postgres import cancel
from dupeproof.stores.postgres.callers_engine_async import AsyncEnginePool, AsyncOfEngine, closed, connected
from dupeproof.stores.postgres.conversation_async import AsyncConversation
from dupeproof.stores.postgres.faults import Timeout
from dupeproof.stores.postgres.literals import literal, numbered, value_of
from dupeproof.stores.postgres.protocols_async import AsyncStorePool, Rows
from dupeproof.stores.postgres.store_async import AsyncPostgresStore
from dupeproof.stores.postgres.target import Limits

_CHECKED_EVERY = 15.0
"""Seconds after which the server's clock is read again."""
_FOR_A_ROLLBACK = 0.5
_LAST_WORDS = 10
"""How often what has come in on an idle connection is read, to see whether that was the end of it."""
_BINARY = 1
_PORTABLE = ("asyncpg", "psycopg2")


def store_over(client: Any) -> AsyncPostgresStore:
    return AsyncPostgresStore(*pool_over(client))


def pool_over(client: Any) -> tuple[Limits, Callable[[], AsyncStorePool]]:
    """What is known of the server, and what makes a pool of ours of the client."""
    kind = kind_of(client)
    timeout = milliseconds(defaults.STORE_TIMEOUT, name="timeout") / 1_000
    if kind is not None and kind.library == "psycopg_pool":
        limits = Limits(f"the given pool {client.name!r}", timeout)
        return limits, lambda: AsyncCallersPool(AsyncFromPool(client), limits)
    if kind is not None and kind.library == "asyncpg":
        limits = Limits("the given pool of asyncpg", timeout)
        asyncpg = import_module("dupeproof.stores.postgres.callers_asyncpg_async")
        return limits, lambda: AsyncEnginePool(asyncpg.OfPool(client), limits)
    _check_dialect(client)
    limits = Limits(client.url.render_as_string(hide_password=True), timeout)
    return limits, partial(_engine_pool, client, limits)


def _engine_pool(engine: Any, limits: Limits) -> AsyncStorePool:
    if engine.dialect.driver == "psycopg":
        return AsyncCallersPool(AsyncFromEngine(engine), limits)
    return AsyncEnginePool(AsyncOfEngine(engine), limits)


def _check_dialect(engine: Any) -> None:
    name, driver = engine.dialect.name, engine.dialect.driver
    if name == "sqlite":
        raise ConfigError(
            "an engine for SQLite cannot be used as a store, which needs a connection of its own to wait for the "
            "file's lock; give the URL: sqlite:///file.db"
        )
    if name != "postgresql":
        raise ConfigError(
            f"an engine for {name} cannot be used as a store; give one for PostgreSQL, or a URL of sqlite:///file.db, "
            "redis://… or postgresql://…"
        )
    if driver != "psycopg" and driver not in _PORTABLE:
        raise ConfigError(
            f"an engine with the driver {driver} cannot be used as a store; make one with postgresql+psycopg://, "
            "postgresql+asyncpg:// (async) or postgresql+psycopg2:// (sync), or give a URL"
        )


class AsyncCallersConnection(AsyncConversation):
    """A connection of psycopg's that is lent to us; known from one time to the next."""

    def __init__(self, pgconn: PGconn) -> None:
        self.pgconn = pgconn
        self.lent: Any = None
        """What to give back."""
        self._begin_conversation(pgconn)

    @property
    def adapted(self) -> AsyncCallerConnection:
        return _Adapted(self)

    @property
    def _own_pid(self) -> int:
        return 0  # its settings are the caller's

    def is_alive(self) -> bool:
        """An idle connection has nothing to say, unless it listens for notifications. One that ends may say why first."""
        try:
            for _ in range(_LAST_WORDS):
                if not self._socket_watch.readable():
                    return self.at_rest
                self.pgconn.consume_input()
        except psycopg.OperationalError:
            return False
        return bool(self.pgconn.status == ConnStatus.OK) and self.at_rest

    async def execute_all(self, statement: str, parameters: Sequence[Any] = ()) -> Rows:
        return await self.run(numbered(statement), parameters)

    async def run(self, text: str, parameters: Sequence[Any]) -> Rows:
        """Parameters go as text, whose types the statement tells; rows come in binary form. No adapters are asked."""
        values = [None if (each := literal(value)) is None else each.encode() for value in parameters]
        self.pgconn.send_query_params(text.encode(), values, result_format=_BINARY)
        return _rows(await self._answer())

    async def tidy(self) -> bool:
        """Whether it can be given back to be used again. A transaction that was left open is ended."""
        status = self.pgconn.transaction_status
        if status in (TransactionStatus.INTRANS, TransactionStatus.INERROR):
            self.deadline = time.monotonic() + _FOR_A_ROLLBACK
            try:
                self.pgconn.send_query(b"ROLLBACK")
                await self._answer()
            except psycopg.Error:
                pass
        return self.at_rest

    def drop(self) -> None:
        """Where an answer is missing, the server may stop looking for it."""
        if self.pgconn.transaction_status == TransactionStatus.ACTIVE:
            cancel.cancel(self.pgconn, lambda: None)
        self.pgconn.finish()


class _Adapted(AsyncCallerConnection):
    dialect = "postgresql"
    style = "numeric_dollar"

    def __init__(self, connection: AsyncCallersConnection) -> None:
        self._connection = connection

    @property
    def in_transaction(self) -> bool:
        return not self._connection.at_rest

    @property
    def driver_connection(self) -> Any:
        return self._connection

    @property
    def how_to_begin(self) -> str:
        return "write: async with connection.transaction(): …"

    async def run(self, text: str, parameters: Any) -> Rows:
        return await self._connection.run(text, parameters or ())

    async def run_counting(self, text: str, parameters: Any) -> int:
        return len(await self.run(text, parameters))


def _rows(result: PGresult) -> Rows:
    kinds = [result.ftype(column) for column in range(result.nfields)]
    return [
        tuple(value_of(kind, result.get_value(row, column)) for column, kind in enumerate(kinds))
        for row in range(result.ntuples)
    ]


class AsyncSource(Protocol):
    async def borrow(self, deadline: float) -> Any: ...

    def psycopg_of(self, lent: Any) -> Any:
        """The driver's connection in it."""
        ...

    async def give_back(self, lent: Any, *, broken: bool) -> None: ...


class AsyncFromPool:
    """psycopg_pool's."""

    def __init__(self, pool: Any) -> None:
        self._pool = pool

    async def borrow(self, deadline: float) -> Any:
        left = deadline - time.monotonic()
        try:
            return await self._pool.getconn(timeout=max(0.001, left))
        except psycopg.OperationalError as exc:
            if type(exc).__name__ == "PoolTimeout":
                raise Timeout("all connections of the pool are taken, or none can be made") from exc
            raise

    def psycopg_of(self, lent: Any) -> Any:
        return lent

    async def give_back(self, lent: Any, *, broken: bool) -> None:  # noqa: ARG002 - the pool looks at it
        await self._pool.putconn(lent)


class AsyncFromEngine:
    """SQLAlchemy's, with psycopg below."""

    def __init__(self, engine: Any) -> None:
        self._engine = engine

    async def borrow(self, deadline: float) -> Any:
        return await connected(self._engine, deadline)

    def psycopg_of(self, lent: Any) -> Any:
        return getattr(lent, "sync_connection", lent).connection.driver_connection

    async def give_back(self, lent: Any, *, broken: bool) -> None:
        await closed(lent, broken=broken)


class AsyncCallersPool:
    """What the store asks of a pool, from one of the caller's."""

    def __init__(self, source: AsyncSource, limits: Limits) -> None:
        self._source = source
        self._limits = limits
        self._known: WeakKeyDictionary[Any, AsyncCallersConnection] = WeakKeyDictionary()
        self.prepares = True

    async def take(self, deadline: float) -> AsyncCallersConnection:
        while True:
            lent = await self._source.borrow(deadline)
            driver = self._source.psycopg_of(lent)
            connection = self._known.get(driver)
            if connection is None:
                connection = self._known[driver] = AsyncCallersConnection(driver.pgconn)
            connection.lent = lent
            connection.deadline, connection.latest = deadline, deadline - self._limits.margin
            connection.prepares = self.prepares and driver.prepare_threshold is not None
            if connection.is_alive() and await self._is_checked(connection):
                return connection
            connection.drop()
            await self.give(connection)
            if time.monotonic() >= deadline:
                raise Timeout("no connection of the pool answers")

    async def _is_checked(self, connection: AsyncCallersConnection) -> bool:
        """Not for long: if it does not answer, there must be time for another one."""
        now = time.monotonic()
        if now - connection.checked < _CHECKED_EVERY:
            return True
        deadline, connection.deadline = connection.deadline, now + (connection.deadline - now) / 2
        try:
            await connection.check(self._limits.timeout)
        except psycopg.OperationalError:
            return False
        except BaseException:
            connection.drop()
            await self.give(connection)
            raise
        connection.deadline = deadline
        return True

    async def give(self, connection: AsyncCallersConnection) -> None:
        lent, connection.lent = connection.lent, None
        fine = False
        try:
            fine = await connection.drained() or await connection.tidy()
        finally:
            if fine:
                connection.heard = time.monotonic()
            else:
                connection.drop()
            await self._source.give_back(lent, broken=not fine)

    def close(self) -> None:
        """The pool is closed by whoever opened it."""
