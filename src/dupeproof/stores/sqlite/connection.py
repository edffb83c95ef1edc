"""One SQLite connection per process: opened on first use, in WAL mode, with the schema in place."""

import fcntl
import os
import re
import sqlite3
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from functools import partial
from importlib.resources import files
from itertools import chain, repeat
from pathlib import Path
from typing import Concatenate, ParamSpec, TypeVar
from weakref import WeakSet

from dupeproof import forks
from dupeproof.errors import ConfigError, StoreUnavailable

SEQUENCES = files(__package__).joinpath("sequences.sql").read_text()
INBOX = files(__package__).joinpath("inbox.sql").read_text()
OUTBOX = files(__package__).joinpath("outbox.sql").read_text()
SCHEMA = "\n".join([files(__package__).joinpath("schema.sql").read_text(), SEQUENCES, INBOX, OUTBOX])
P = ParamSpec("P")
R = TypeVar("R")
SYNCHRONOUS = ("normal", "full", "extra")
_CACHE = "PRAGMA cache_size = -32768"
"""32 MiB. Keys are random, so each touches a page of its own; with the default of 2 MiB most are read back first."""
_SMALLEST_LOG, _LARGEST_LOG = 1_000, 8_000
"""Pages. The log follows the size of the file: in a large one nearly every id changes a page of its own, which a larger
log writes back half as often; in a small one it would only be a file that grows, and syncing that takes double the time."""
_CALLS_BETWEEN_LOOKS = 256
_FIRST_PAUSES = (0.001, 0.002, 0.005, 0.01, 0.015, 0.02, 0.025, 0.025, 0.025, 0.05, 0.05)
_LONGEST_PAUSE = 0.1
"""Seconds, as SQLite itself would wait for a lock. Not by its own timeout: a replay must not wait at all."""
NAMES = re.findall(r"^CREATE \w+ IF NOT EXISTS (\w+)", SCHEMA, flags=re.MULTILINE)
_TABLES = f"SELECT count(*) FROM sqlite_master WHERE name IN ({', '.join(map(repr, NAMES))})"  # noqa: S608 - ours


class Database:
    """The connection and the lock around it. Safe to carry over a fork: it is closed for that moment.

    A child that opens a connection of its own is not enough. SQLite keeps book per process of who has which file
    open, the child inherits that book without the locks it lists, and the parent, seeing nobody else, removes
    the log the child is writing to when it closes: what the child has committed is then gone. Where Python's hooks do not run at the
    fork, so that the connection cannot be closed for it, the child takes these locks itself.
    """

    def __init__(self, path: Path, *, synchronous: str, timeout: float) -> None:
        if synchronous not in SYNCHRONOUS:
            raise ConfigError(f"synchronous must be one of {', '.join(SYNCHRONOUS)}; got {synchronous!r}")
        self.path = path
        self._synchronous = synchronous
        self._timeout = timeout
        self._pid = os.getpid()
        self._lock = threading.Lock()
        self._connection: sqlite3.Connection | None = None
        self._file = self._log = _NO_FILE
        """The database and its log's index, as they were when the connection was opened."""
        self._calls = 0
        _databases.add(self)
        forks.reset_in_children(self)

    def run(
        self, work: Callable[Concatenate[sqlite3.Connection, P], R], *args: P.args, **kwargs: P.kwargs
    ) -> R:
        """Call `work` with the connection, which nobody else uses meanwhile."""
        forks.look()
        if not self._lock.acquire(blocking=False) and not self._lock.acquire(timeout=self._timeout):
            raise StoreUnavailable(f"{self.path}: other threads kept the database for {self._timeout:g} s")
        try:
            if self._connection is None:
                self._connection = self._open()
            elif self._connection.in_transaction:
                self._connection.execute("ROLLBACK")  # left by a call that was interrupted between two steps
            self._calls += 1
            if self._calls % _CALLS_BETWEEN_LOOKS == 0:
                self._patiently(self._connection, partial(_fit_log, self._connection))
            return self._patiently(self._connection, partial(work, self._connection, *args, **kwargs))
        except sqlite3.Error as exc:
            raise StoreUnavailable(
                f"{self.path}: {_advice(exc, self._timeout)}", refused=_refused(exc)
            ) from exc
        finally:
            self._lock.release()

    def _patiently(self, connection: sqlite3.Connection, work: Callable[[], R]) -> R:
        """Again, while somebody else holds the write lock. All of it, so that what it read and the time are not outdated."""
        deadline = 0.0
        for pause in chain(_FIRST_PAUSES, repeat(_LONGEST_PAUSE)):
            try:
                return work()
            except sqlite3.OperationalError as exc:
                now = time.monotonic()
                deadline = deadline or now + self._timeout
                if not is_busy(exc) or now >= deadline:
                    raise
                if connection.in_transaction:
                    connection.execute("ROLLBACK")
                time.sleep(min(pause, deadline - now))
        raise AssertionError

    def close(self) -> None:
        forks.look()
        with self._lock:
            self._close()

    def enter_fork(self) -> bool:
        """Close and keep the lock until `leave_fork`. False when a thread does not give up the connection in time."""
        if not self._lock.acquire(timeout=self._timeout):
            return False
        self._close()
        return True

    def leave_fork(self) -> None:
        self._lock.release()

    def after_fork(self) -> None:
        self._pid = os.getpid()
        self._lock = threading.Lock()
        if self._connection is not None:
            _inherited.add(self._file, self._connection, self._log)
            self._connection = None

    def _close(self) -> None:
        if self._connection is not None:
            self._connection.close()
            self._connection = None

    def __del__(self) -> None:
        # Forgetting to close is fine; a connection of the parent process stays untouched.
        if getattr(self, "_connection", None) is not None and self._pid == os.getpid():
            assert self._connection is not None
            self._connection.close()

    def _open(self) -> sqlite3.Connection:
        _inherited.take_locks(self.path)
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
        self._file, self._log = _which(self.path), _which(_log_index(self.path))
        return connection

    def _prepare(self, connection: sqlite3.Connection) -> None:
        # Changing the journal mode does not wait for the busy timeout, so processes that start together collide.
        deadline = time.monotonic() + self._timeout
        while not self._in_wal_mode(connection, give_up=time.monotonic() > deadline):
            time.sleep(0.01)
        connection.execute(f"PRAGMA synchronous = {self._synchronous}")
        connection.execute(_CACHE)
        _fit_log(connection)
        if connection.execute(_TABLES).fetchone()[0] < len(NAMES):
            with transaction(connection):
                for statement in SCHEMA.split(";\n"):
                    connection.execute(statement)
        connection.execute("PRAGMA busy_timeout = 0")  # from here on `_patiently` waits

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


_DATABASE_LOCKS, _LOG_LOCKS = (510, 0x40000002), (1, 128)
"""What SQLite locks in a database and in its log's index while a connection is open: how many bytes, from where."""


_NO_FILE = (0, 0)


def _which(path: Path) -> tuple[int, int]:
    """The file itself, as SQLite's book knows it, however its path is spelled."""
    try:
        found = path.stat()
    except OSError:
        return _NO_FILE
    return found.st_dev, found.st_ino


def _log_index(path: Path) -> Path:
    """Another file when the last connection was closed since. It is beside the file that a symbolic link leads to."""
    return Path(f"{path.resolve()}-shm")


class _Inherited:
    """Connections that were open during a fork. SQLite forbids a child to use them, and closing them would be a use.

    Their files are in SQLite's book of the child, which therefore takes no lock on them: we do, in its place, before a
    connection is opened.
    """

    def __init__(self) -> None:
        self._connections: list[sqlite3.Connection] = []
        self._logs: dict[tuple[int, int], tuple[int, int]] = {}
        self._locked: set[tuple[int, int]] = set()
        forks.reset_in_children(self)

    def after_fork(self) -> None:
        self._locked.clear()  # locks are not inherited

    def add(self, file: tuple[int, int], connection: sqlite3.Connection, log: tuple[int, int]) -> None:
        self._connections.append(connection)
        self._logs[file] = log

    def take_locks(self, path: Path) -> None:
        """For as long as this process lives."""
        if not self._logs:
            return  # nearly always
        file = _which(path)
        if file in self._locked or file not in self._logs:
            return
        try:
            for name, (length, start) in ((path, _DATABASE_LOCKS), (_log_index(path), _LOG_LOCKS)):
                opened = os.open(name, os.O_RDWR)  # never closed: that would give up all its locks
                fcntl.lockf(opened, fcntl.LOCK_SH | fcntl.LOCK_NB, length, start)
            intact = _which(_log_index(path)) == self._logs[file]
        except OSError:
            intact = False
        if not intact:
            raise StoreUnavailable(
                f"{path}: this process was forked while its parent had the file open, and the parent has closed it "
                "since; open the store after the fork"
            )
        self._locked.add(file)


_inherited = _Inherited()
_databases: WeakSet[Database] = WeakSet()
_forking: list[Database] = []


def _before_fork() -> None:
    forks.look()
    _forking.extend(database for database in list(_databases) if database.enter_fork())


def _after_fork_in_parent() -> None:
    while _forking:
        _forking.pop().leave_fork()


os.register_at_fork(before=_before_fork, after_in_parent=_after_fork_in_parent, after_in_child=_forking.clear)


@contextmanager
def transaction(connection: sqlite3.Connection) -> Iterator[None]:
    """The write lock is taken first, so that nothing read inside can be outdated."""
    try:
        connection.execute("BEGIN IMMEDIATE")
        yield
        connection.execute("COMMIT")
    except BaseException:
        if connection.in_transaction:
            connection.execute("ROLLBACK")
        raise


def _fit_log(connection: sqlite3.Connection) -> None:
    pages = connection.execute("PRAGMA page_count").fetchone()[0]
    log = min(max(_SMALLEST_LOG, pages // 4), _LARGEST_LOG)
    connection.execute(f"PRAGMA wal_autocheckpoint = {log}")


def is_busy(exc: sqlite3.OperationalError) -> bool:
    return exc.sqlite_errorcode & 0xFF == sqlite3.SQLITE_BUSY


def _refused(exc: sqlite3.Error) -> bool:
    """Whether the value itself is what SQLite will not take. A full disk, for one, may pass."""
    return getattr(exc, "sqlite_errorcode", 0) & 0xFF == sqlite3.SQLITE_TOOBIG or isinstance(
        exc, sqlite3.DataError
    )


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
