"""One SQLite connection per process: opened on first use, in WAL mode, with the schema in place."""

import os
import sqlite3
import threading
import time
import weakref
from collections.abc import Iterator
from contextlib import contextmanager
from importlib.resources import files
from pathlib import Path

from dupeproof.errors import ConfigError, StoreUnavailable

SCHEMA = files(__package__).joinpath("schema.sql").read_text()
SYNCHRONOUS = ("normal", "full", "extra")
_TABLES = "SELECT count(*) FROM sqlite_master WHERE name LIKE 'dupeproof_%'"
_open_databases: "weakref.WeakSet[Database]" = weakref.WeakSet()


class Database:
    """The connection and the lock around it.

    Safe to carry over a fork, but only because nothing is: SQLite counts its locks per process and inode, so a child
    that inherits an open file believes in locks it does not have, and loses writes when the parent closes. All
    connections are closed before a fork and opened again, on either side, by whoever uses them next.
    """

    def __init__(self, path: Path, *, synchronous: str, timeout: float) -> None:
        if synchronous not in SYNCHRONOUS:
            raise ConfigError(f"synchronous must be one of {', '.join(SYNCHRONOUS)}; got {synchronous!r}")
        self.path = path
        self._synchronous = synchronous
        self._timeout = timeout
        self._lock = threading.Lock()
        self._connection: sqlite3.Connection | None = None

    @contextmanager
    def reading(self) -> Iterator[sqlite3.Connection]:
        if not self._lock.acquire(timeout=self._timeout):
            raise StoreUnavailable(f"{self.path}: other threads kept the database for {self._timeout:g} s")
        try:
            with self._translated():
                if self._connection is None:
                    self._connection = self._open()
                yield self._connection
        finally:
            self._lock.release()

    @contextmanager
    def writing(self) -> Iterator[sqlite3.Connection]:
        """One transaction, the write lock taken first, so that nothing read in it can be outdated."""
        with self.reading() as connection, _transaction(connection):
            yield connection

    def close(self) -> None:
        with self._lock:
            self._let_go()

    def before_fork(self) -> None:
        self._lock.acquire()
        self._let_go()

    def after_fork(self) -> None:
        self._lock.release()

    def __del__(self) -> None:
        # Forgetting to close is fine.
        self._let_go()

    def _let_go(self) -> None:
        connection, self._connection = getattr(self, "_connection", None), None
        if connection is not None:
            connection.close()

    def _open(self) -> sqlite3.Connection:
        connection = sqlite3.connect(
            self.path,
            timeout=self._timeout,
            isolation_level=None,
            check_same_thread=False,
            cached_statements=64,
        )
        try:
            self._prepare(connection)
        except BaseException:
            connection.close()
            raise
        _open_databases.add(self)
        return connection

    def _prepare(self, connection: sqlite3.Connection) -> None:
        # Changing the journal mode does not wait for the busy timeout, so processes that start together collide.
        deadline = time.monotonic() + self._timeout
        while not self._in_wal_mode(connection, give_up=time.monotonic() > deadline):
            time.sleep(0.01)
        connection.execute(f"PRAGMA synchronous = {self._synchronous}")
        if connection.execute(_TABLES).fetchone()[0] < SCHEMA.count("CREATE "):
            with _transaction(connection):
                for statement in SCHEMA.split(";\n"):
                    connection.execute(statement)

    def _in_wal_mode(self, connection: sqlite3.Connection, *, give_up: bool) -> bool:
        try:
            mode = connection.execute("PRAGMA journal_mode = WAL").fetchone()[0]
        except sqlite3.OperationalError as exc:
            if exc.sqlite_errorcode & 0xFF != sqlite3.SQLITE_BUSY or give_up:
                raise
            return False
        if mode != "wal":
            raise StoreUnavailable(f"{self.path}: SQLite cannot use WAL here; put the file on a local disk")
        return True

    @contextmanager
    def _translated(self) -> Iterator[None]:
        try:
            yield
        except sqlite3.Error as exc:
            raise StoreUnavailable(f"{self.path}: {_advice(exc, self._timeout)}") from exc


@contextmanager
def _transaction(connection: sqlite3.Connection) -> Iterator[None]:
    connection.execute("BEGIN IMMEDIATE")
    try:
        yield
        connection.execute("COMMIT")
    except BaseException:
        if connection.in_transaction:
            connection.execute("ROLLBACK")
        raise


def _advice(exc: sqlite3.Error, timeout: float) -> str:
    match getattr(exc, "sqlite_errorcode", 0) & 0xFF:
        case sqlite3.SQLITE_BUSY | sqlite3.SQLITE_LOCKED:
            return f"another process kept the write lock for {timeout:g} s; raise ?timeout= or look for who holds it"
        case sqlite3.SQLITE_CANTOPEN:
            return "cannot be opened; its folder must exist and be writable for this user"
        case sqlite3.SQLITE_READONLY | sqlite3.SQLITE_PERM:
            return "is read-only for this user; the file and its folder must be writable"
        case sqlite3.SQLITE_NOTADB:
            return "is not an SQLite database; give another file"
        case sqlite3.SQLITE_FULL:
            return "the disk is full"
        case _:
            return str(exc)


class _Forking:
    """Every database locked and closed while the process forks. One fork at a time: the interpreter sees to that."""

    def __init__(self) -> None:
        self._held: list[Database] = []

    def before(self) -> None:
        self._held = list(_open_databases)
        for database in self._held:
            database.before_fork()

    def after(self) -> None:
        held, self._held = self._held, []
        for database in held:
            database.after_fork()


_forking = _Forking()
os.register_at_fork(before=_forking.before, after_in_parent=_forking.after, after_in_child=_forking.after)
