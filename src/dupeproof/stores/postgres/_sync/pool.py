# Written by tools/twins.py from src/dupeproof/stores/postgres/_async/pool.py; change that file instead.
"""A few connections, opened when needed, bounded in number and in how long they may keep silent.

Not psycopg_pool: that one has worker threads which do not survive a fork, and hands out connections that died while
idle unless it asks the server each time. Here a look at the socket is enough, and costs no round trip.
"""

import math
import os
import select
import time
from collections.abc import Generator, Iterator, Sequence
from contextlib import contextmanager
from contextvars import ContextVar
from typing import Any, TypeVar

import psycopg
from psycopg import Connection

from dupeproof.stores._sync.runtime import Turnstile
from dupeproof.stores.postgres.faults import Timeout
from dupeproof.stores.postgres.target import Target

R = TypeVar("R")
Rows = list[tuple[Any, ...]]
_attempt: ContextVar["_Attempt"] = ContextVar("_attempt")


class _Attempt:
    """Connecting, watched. The driver knows whole seconds, two at least; here is the moment it must be done by.

    A cancelled attempt keeps its socket for as long as anyone keeps the error, and the server a process that waits
    for a password, unless the conversation is ended.
    """

    def __init__(self, deadline: float) -> None:
        self.deadline = deadline
        self._conversations: list[Generator[Any, Any, Any]] = []

    def watch(self, conversation: Generator[Any, Any, R]) -> Generator[Any, Any, R]:
        bounded = _bounded(conversation, self.deadline)
        self._conversations += [bounded, conversation]
        return bounded

    def end(self) -> None:
        for conversation in self._conversations:
            conversation.close()


class Bounded(Connection[tuple[Any, ...]]):
    """A connection on which waiting ends, also when the server hangs and no error ever comes."""

    limit = 5.0

    @classmethod
    def _connect_gen(cls, *args: Any, **kwargs: Any) -> Generator[Any, Any, Any]:
        return _attempt.get().watch(super()._connect_gen(*args, **kwargs))

    def wait(self, gen: Generator[Any, Any, R], *args: Any, **kwargs: Any) -> R:
        return super().wait(_bounded(gen, time.monotonic() + self.limit), *args, **kwargs)


class Pool:
    def __init__(self, target: Target) -> None:
        self._target = target
        self._pid = os.getpid()
        self._idle: list[Bounded] = []
        self._turnstile = Turnstile(target.pool)
        self._closed = False

    @contextmanager
    def connection(self, seconds: float) -> Iterator[Bounded]:
        """A connection on which to say one thing, got and answered within so many seconds."""
        deadline = time.monotonic() + seconds
        if not self._turnstile.enter(seconds):
            raise Timeout("all connections are taken")
        try:
            connection = self._reusable() or self._open(deadline)
            connection.limit = max(0.0, deadline - time.monotonic())
            try:
                yield connection
            except psycopg.Error:
                if connection.info.transaction_status != psycopg.pq.TransactionStatus.IDLE:
                    _drop(connection)
                raise
            except BaseException:
                _drop(connection)
                raise
            finally:
                if self._closed:
                    _drop(connection)
                elif not connection.closed:
                    self._idle.append(connection)
        finally:
            self._turnstile.leave()

    def close(self) -> None:
        """Give up idle connections; those in use are given up by their users, who find the pool closed."""
        self._closed = True
        while self._idle:
            _drop(self._idle.pop())

    def _reusable(self) -> Bounded | None:
        while self._idle:
            connection = self._idle.pop()
            if not connection.closed and not _readable(connection):
                return connection
            _drop(connection)
        return None

    def _open(self, deadline: float) -> Bounded:
        attempt = _Attempt(deadline)
        _attempt.set(attempt)
        try:
            return Bounded.connect(
                self._target.conninfo,
                autocommit=True,
                prepare_threshold=None,
                connect_timeout=max(2, math.ceil(self._target.timeout)),
            )
        except BaseException:
            attempt.end()
            raise

    def __del__(self) -> None:
        if self._pid == os.getpid():
            for connection in self._idle:
                _drop(connection)


def execute(connection: Bounded, statement: str, parameters: Sequence[Any] = ()) -> Rows:
    cursor = connection.execute(statement, parameters)
    return [] if cursor.description is None else cursor.fetchall()


def _drop(connection: Bounded) -> None:
    """Close without a word to the server or the loop; works for a broken connection and at exit too."""
    connection.pgconn.finish()


def _readable(connection: Bounded) -> bool:
    """An idle connection has nothing to say. If it does, the server has closed it."""
    poller = select.poll()
    poller.register(connection.pgconn.socket, select.POLLIN)
    return bool(poller.poll(0))


def _bounded(gen: Generator[Any, Any, R], deadline: float) -> Generator[Any, Any, R]:
    """The driver's conversation, given up at the deadline. The driver resumes it at short intervals for this."""
    try:
        wanted = next(gen)
        while True:
            ready = yield wanted
            if not ready and time.monotonic() > deadline:
                raise Timeout("no answer in time")
            wanted = gen.send(ready)
    except StopIteration as end:
        result: R = end.value
        return result
