"""What drivers raise, in our words. The drivers need not be installed: their errors are known by their codes."""

import sqlite3
from collections.abc import Iterator
from types import TracebackType

from dupeproof.errors import ConfigError, DupeproofError, RetryTransaction, StoreUnavailable

Code = str | int
"""An SQLSTATE of PostgreSQL, an error number of MySQL and MariaDB; of SQLite its name."""
DUPLICATE_KEY: frozenset[Code] = frozenset({"23505", 1062})


class TableMissing(ConfigError):
    """The statement is about a table that is not there."""


def table_missing(table: str, owner: str) -> str:
    return (
        f"the table {table} is not there yet; run `dupeproof schema URL --apply`, "
        f"or call {owner}.create_schema(connection) once. Where it is there, look at search_path, and at what "
        "`dupeproof schema URL --grants USER` prints for this user"
    )


def _again(why: str) -> RetryTransaction:
    return RetryTransaction(f"{why}; roll your transaction back and run it again")


def _read_only() -> StoreUnavailable:
    return StoreUnavailable("this transaction is read-only; use one that may write", refused=True)


def _gone() -> StoreUnavailable:
    return StoreUnavailable("the connection is closed or was lost; run the transaction again on a new one")


def _conflict() -> RetryTransaction:
    return _again("another transaction changed the same rows")


def _deadlock() -> RetryTransaction:
    return _again("the database broke a deadlock with another transaction")


def _waited() -> RetryTransaction:
    return _again("another transaction kept a lock for longer than this one may wait")


def _not_allowed() -> ConfigError:
    return ConfigError(
        "the database does not let this user do that; have an owner of the tables run what "
        "`dupeproof schema URL --grants USER` prints"
    )


def _failed() -> ConfigError:
    return ConfigError("an earlier statement of this transaction has failed; roll it back first")


def _too_large() -> ConfigError:
    return ConfigError(
        "this is larger than the server's max_allowed_packet, and it has ended the connection; send less, or raise that"
    )


OURS = {
    "40001": _conflict,
    "40P01": _deadlock,
    "55P03": _waited,
    "42P01": lambda: TableMissing("the table is not there"),
    "25006": _read_only,
    "42501": _not_allowed,
    1142: _not_allowed,
    "25P02": _failed,
    "57P01": _gone,
    "08003": _gone,
    "08006": _gone,
    1020: _conflict,
    1153: _too_large,
    1205: _waited,
    1213: _deadlock,
    1146: lambda: TableMissing("the table is not there"),
    1290: _read_only,
    1792: _read_only,
    2006: _gone,
    2013: _gone,
    "SQLITE_BUSY": _waited,
    "SQLITE_BUSY_SNAPSHOT": _conflict,
    "SQLITE_LOCKED": _waited,
    "SQLITE_READONLY": _read_only,
}
_BY_TEXT = {
    "no such table": lambda: TableMissing("the table is not there"),
    "closed": _gone,
    "released back to the pool": _gone,
    "consuming input failed": _gone,
    "Lost connection": _gone,
    "An error occurred in the current transaction": _failed,  # Django's word, before it asks the database
}
"""For errors that carry no code, when they are of a driver's own kind."""


class Translated:
    """Errors we have words for, in those; all others as they are. With `missing`, what a missing table means."""

    __slots__ = ("_missing",)

    def __init__(self, missing: str | None = None) -> None:
        self._missing = missing

    def __enter__(self) -> None:
        """Nothing to do before there is an error."""

    def __exit__(
        self, kind: type[BaseException] | None, exc: BaseException | None, traceback: TracebackType | None
    ) -> None:
        if exc is None or not isinstance(exc, Exception) or isinstance(exc, DupeproofError):
            return
        ours = _ours(exc)
        if isinstance(ours, TableMissing):
            ours = None if self._missing is None else ConfigError(self._missing)
        if ours is not None:
            raise ours from exc


def code_of(exc: BaseException) -> Code | None:
    """The database's code for it, found in the error or in the one of the driver that it wraps."""
    for each in _chain(exc):
        code = _own_code(each)
        if code is not None:
            return code
    return None


def _ours(exc: Exception) -> DupeproofError | None:
    code = code_of(exc)
    if code in OURS:
        return OURS[code]()
    if code is None or code == "SQLITE_ERROR":
        for each in _chain(exc):
            for text, make in _BY_TEXT.items():
                if is_database_error(each) and text in str(each):
                    return make()
    return None


def _chain(exc: BaseException | None) -> Iterator[BaseException]:
    """The error, then what it wraps: SQLAlchemy says `orig`, the others raise from it."""
    while exc is not None:
        yield exc
        wrapped = getattr(exc, "orig", None)
        exc = wrapped if isinstance(wrapped, BaseException) else exc.__cause__


def _own_code(exc: BaseException) -> Code | None:
    if isinstance(exc, sqlite3.Error):
        name: str | None = getattr(exc, "sqlite_errorname", None)
        return name
    # PyMySQL and those like it: a number, then a text. It says more than the SQLSTATE some of them have too.
    if len(exc.args) >= 2 and isinstance(exc.args[0], int) and is_database_error(exc):
        return exc.args[0]
    for attribute in ("sqlstate", "pgcode"):
        state = getattr(exc, attribute, None)
        if isinstance(state, str):
            return state
    return None


def is_database_error(exc: BaseException) -> bool:
    """DB-API drivers all have an `Error`, and an `InterfaceError` below or beside it."""
    names = {each.__name__ for each in type(exc).__mro__}
    return bool(names & {"Error", "DatabaseError", "InterfaceError", "PostgresError", "ResourceClosedError"})
