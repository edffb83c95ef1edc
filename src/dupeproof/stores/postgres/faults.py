"""The driver's errors in our words."""

import psycopg
from psycopg import errors as theirs
from psycopg.pq.abc import PGresult

from dupeproof.errors import StoreUnavailable
from dupeproof.sql.postgres import advice

SCHEMA_MISSING = (theirs.UndefinedFunction, theirs.UndefinedTable)
ROLLED_BACK = (theirs.SerializationFailure, theirs.DeadlockDetected)
"""The statement surely did nothing, and can be sent again."""
NOT_PREPARED = (theirs.InvalidSqlStatementName, theirs.DuplicatePreparedStatement)
"""A transaction pooler put another connection behind this one than the one that was prepared. Nothing was done."""
STOPPED = (theirs.QueryCanceled, theirs.LockNotAvailable)
"""The server has given up, at the moment it was told to or at one of its own settings. Nothing was done."""
CONNECTION_LOST = (psycopg.OperationalError, psycopg.InterfaceError)
"""The statement may or may not have been carried out; verbs that can be repeated are."""

_ADVICE: list[tuple[type[Exception] | tuple[type[Exception], ...], str]] = [
    (
        (theirs.InvalidPassword, theirs.InvalidAuthorizationSpecification),
        "refused the user name or password; check the credentials in the URL",
    ),
    (theirs.InvalidCatalogName, "has no such database; check the name in the URL"),
    (
        theirs.InsufficientPrivilege,
        (
            "does not let this user make or write its tables; let an owner run `dupeproof schema URL --apply`, then what "
            "`dupeproof schema URL --grants USER` prints"
        ),
    ),
    (
        theirs.InvalidSchemaName,
        (
            "has no schema for our tables that this user may use: it lacks USAGE, or search_path leads elsewhere; let an "
            "owner run what `dupeproof schema URL --grants USER` prints"
        ),
    ),
    (theirs.ReadOnlySqlTransaction, "is read-only; point the URL at the primary"),
    (theirs.TooManyConnections, "has no connection left"),
    (theirs.DiskFull, "has a full disk"),
    (theirs.OutOfMemory, "has no memory left"),
    (
        STOPPED,
        (
            "did not get to the statement in time and did nothing: somebody holds a lock on its tables (see pg_locks), "
            "it is overloaded, or statement_timeout or lock_timeout is shorter than the timeout here"
        ),
    ),
]

_REFUSED = (psycopg.DataError, theirs.ProgramLimitExceeded)
"""What the value itself causes. A full disk passes."""


class Timeout(psycopg.OperationalError):
    """No answer in the time allowed."""


TIMED_OUT = (Timeout, theirs.ConnectionTimeout)
"""The time allowed is used up."""


def unavailable(shown: str, exc: psycopg.Error | OSError) -> StoreUnavailable:
    if isinstance(exc, psycopg.Error):
        return StoreUnavailable(f"PostgreSQL at {shown} {_advice(exc)}", refused=isinstance(exc, _REFUSED))
    return StoreUnavailable(f"PostgreSQL at {shown} cannot be reached: {type(exc).__name__}")


def error_of(result: PGresult) -> psycopg.Error:
    """What the server answered, as the driver would have raised it. Without a code the connection is to blame."""
    error = theirs.error_from_result(result)
    return error if error.sqlstate else psycopg.OperationalError(str(error))


def _advice(exc: psycopg.Error) -> str:
    for kinds, text in _ADVICE:
        if isinstance(exc, kinds):
            return text
    if isinstance(exc, TIMED_OUT):
        return "did not answer in time"
    if isinstance(exc, CONNECTION_LOST):
        # Errors while connecting carry no code, only words; those of a pooler are known by them too.
        return advice(str(exc))
    return f"answered with an error: {exc}"
