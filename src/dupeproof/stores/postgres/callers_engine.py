# Written by tools/twins.py from src/dupeproof/stores/postgres/callers_engine_async.py; change that file instead.
"""An engine of SQLAlchemy's with another driver than psycopg, or a pool of asyncpg: statements in a form all drivers take.

Parameters go as text, and rows come as one value in the server's binary form; so nothing depends on what a driver makes
of lists, bytes or ids. Each statement commits by itself.
"""

import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from typing import Any, Protocol, TypeVar

import psycopg
from msgspec import Struct
from psycopg import errors as theirs

from dupeproof.sql.faults import code_of, is_database_error
from dupeproof.sql.protocols import CallerConnection
from dupeproof.sql.sqlalchemy import Sqlalchemy
from dupeproof.stores.postgres import queries
from dupeproof.stores.postgres.faults import Timeout
from dupeproof.stores.postgres.literals import (
    RowsAnswer,
    literal,
    moment,
    portable_query,
    portable_statement,
    text_of,
)
from dupeproof.stores.postgres.protocols import Rows
from dupeproof.stores.postgres.queries import PreparedQuery
from dupeproof.stores.postgres.rows import Answer, bigint, integer
from dupeproof.stores.postgres.target import Limits
from dupeproof.stores.runtime import to_the_end, within

T = TypeVar("T")
_CHECKED_EVERY = 15.0
_MICROSECONDS = 1_000_000
_OURS = "dupeproof"


def connected(engine: Any, deadline: float) -> Any:
    """A connection of the engine. Whatever goes wrong, nothing was sent."""
    try:
        return within(deadline - time.monotonic(), engine.connect)
    except TimeoutError as exc:
        raise Timeout("all connections of the engine are taken, or none can be made") from exc
    except Exception as exc:
        raise translated(exc) from exc


def closed(lent: Any, *, broken: bool) -> None:
    """Back to the engine; not to be used again if it is broken."""
    try:
        if broken:
            lent.invalidate()
        lent.close()
    except Exception as exc:
        if not is_database_error(exc) and not isinstance(exc, OSError):
            raise


def translated(exc: Exception) -> Exception:
    """As psycopg would have raised it."""
    if isinstance(exc, psycopg.Error):
        return exc
    text = str(getattr(exc, "orig", exc))
    code = code_of(exc)
    if isinstance(code, str):
        try:
            return theirs.lookup(code)(text)
        except KeyError:
            return psycopg.DatabaseError(text)
    if type(exc).__name__ == "TimeoutError":  # SQLAlchemy's, of its pool
        return Timeout(text)
    if is_database_error(exc) or isinstance(exc, OSError):
        return psycopg.OperationalError(text)
    return exc


class ServerTime(Struct):
    """What is known of the server behind one connection, for as long as that lives."""

    ahead: int = 0
    checked: float = 0.0
    heard: float = 0.0


class Lender(Protocol):
    """Whose connections these are."""

    def borrow(self, deadline: float) -> Any: ...

    def adapted(self, lent: Any) -> CallerConnection: ...

    def known(self, lent: Any) -> ServerTime: ...

    def give_back(self, lent: Any, *, broken: bool) -> None: ...


class OfEngine:
    """SQLAlchemy's."""

    def __init__(self, engine: Any) -> None:
        self._engine = engine.execution_options(isolation_level="AUTOCOMMIT")

    def borrow(self, deadline: float) -> Any:
        return connected(self._engine, deadline)

    def adapted(self, lent: Any) -> CallerConnection:
        return Sqlalchemy(lent)

    def known(self, lent: Any) -> ServerTime:
        found: ServerTime = getattr(lent, "sync_connection", lent).info.setdefault(_OURS, ServerTime())
        return found

    def give_back(self, lent: Any, *, broken: bool) -> None:
        closed(lent, broken=broken)


class EngineConnection:
    def __init__(self, lender: Lender, lent: Any, deadline: float, latest: float) -> None:
        self.lent = lent
        self.deadline = deadline
        self.latest = latest
        self.is_broken = False
        self._adapted = lender.adapted(lent)
        self.known = lender.known(lent)

    @property
    def heard(self) -> float:
        return self.known.heard

    @heard.setter
    def heard(self, moment: float) -> None:
        self.known.heard = moment

    @property
    def checked(self) -> float:
        return self.known.checked

    @checked.setter
    def checked(self, moment: float) -> None:
        self.known.checked = moment

    @property
    def adapted(self) -> CallerConnection:
        return _Translated(self, self._adapted)

    def check(self) -> None:
        answer = self.query(queries.CLOCK, [integer(0), integer(0)])  # its settings are the caller's
        self.known.checked = time.monotonic()
        there = int.from_bytes(answer.get_value(0, 0) or b"", "big", signed=True)
        self.known.ahead = there - int(self.known.checked * _MICROSECONDS)

    def _limit(self) -> int:
        """`latest` by the server's clock."""
        return int(self.latest * _MICROSECONDS) + self.known.ahead

    def query(self, query: PreparedQuery, parameters: Sequence[bytes]) -> Answer:
        given = [*parameters, bigint(self._limit())] if query.dated else parameters
        values = {
            f"p{number}": text_of(kind, data)
            for number, (kind, data) in enumerate(zip(query.types, given, strict=True), 1)
        }
        found = self.said(lambda: self._adapted.execute(portable_query(query), values))
        return RowsAnswer([bytes(row[0]) for row in found])

    def execute_all(self, statement: str, parameters: Sequence[Any] = ()) -> Rows:
        values = {f"p{number}": literal(value) for number, value in enumerate(parameters, 1)}
        text = portable_statement(statement, parameters)
        return self.said(lambda: self._adapted.execute(text, values))

    def execute_in_time(self, statement: str, parameters: Sequence[Any]) -> Rows:
        return self.execute_all(statement, [*parameters, moment(self._limit())])

    @contextmanager
    def transaction_in_time(self) -> Iterator[None]:
        """The clock is looked at, and then it is committed: by that much it may be late."""
        adapted = self.adapted
        with adapted.transaction():
            yield
            limit = literal(moment(self._limit()))
            adapted.execute(
                "SELECT dupeproof_in_time_v1(CAST(CAST(:until AS text) AS timestamptz))", {"until": limit}
            )

    def said(self, work: Callable[[], T]) -> T:
        try:
            return to_the_end(self.deadline - time.monotonic(), work)
        except TimeoutError as exc:
            self.is_broken = True
            raise Timeout("no answer in time") from exc
        except Exception as exc:
            raise translated(exc) from exc
        except BaseException:
            self.is_broken = True
            raise


class _Translated(CallerConnection):
    """The adapter for the caller's connections, with deadlines, and errors as the store wants them."""

    def __init__(self, connection: EngineConnection, adapted: CallerConnection) -> None:
        self._connection = connection
        self._adapted = adapted
        self.dialect, self.style = adapted.dialect, adapted.style

    @property
    def in_transaction(self) -> bool:
        return False  # one is only begun here

    @property
    def driver_connection(self) -> Any:
        return self._adapted.driver_connection

    @property
    def how_to_begin(self) -> str:
        return self._adapted.how_to_begin

    def run(self, text: str, parameters: Any) -> Rows:
        return self._connection.said(lambda: self._adapted.run(text, parameters))

    def run_counting(self, text: str, parameters: Any) -> int:
        return self._connection.said(lambda: self._adapted.run_counting(text, parameters))

    @contextmanager
    def transaction(self) -> Iterator[None]:
        self.run("BEGIN", None)
        try:
            yield
            self.run("COMMIT", None)
        except BaseException:
            # Whether it is rolled back or not is the server's to find out: the connection is not used again.
            self._connection.is_broken = True
            raise


class EnginePool:
    def __init__(self, lender: Lender, limits: Limits) -> None:
        self._lender = lender
        self._limits = limits
        self.prepares = False

    def take(self, deadline: float) -> EngineConnection:
        lent = self._lender.borrow(deadline)
        connection = EngineConnection(self._lender, lent, deadline, deadline - self._limits.margin)
        try:
            if time.monotonic() - connection.checked >= _CHECKED_EVERY:
                connection.check()
        except BaseException:
            self._lender.give_back(lent, broken=True)
            raise
        return connection

    def give(self, connection: EngineConnection) -> None:
        connection.heard = time.monotonic()
        self._lender.give_back(connection.lent, broken=connection.is_broken)

    def close(self) -> None:
        """The engine is closed by whoever opened it."""
