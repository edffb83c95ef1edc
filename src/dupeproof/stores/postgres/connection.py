# Written by tools/twins.py from src/dupeproof/stores/postgres/connection_async.py; change that file instead.
"""A connection on which waiting ends, and a short way through it for the statements on the hot path."""

import time
from collections.abc import Generator, Iterator, Sequence
from contextlib import contextmanager
from contextvars import ContextVar
from datetime import UTC, datetime, timedelta
from typing import Any, TypeVar

from psycopg import Connection
from psycopg.pq import ExecStatus, TransactionStatus
from psycopg.pq.abc import PGresult

from dupeproof.sql.postgres import Host
from dupeproof.stores.postgres import cancel, queries
from dupeproof.stores.postgres.faults import Timeout, error_of
from dupeproof.stores.postgres.queries import PreparedQuery
from dupeproof.stores.postgres.readiness import Watch
from dupeproof.stores.postgres.rows import integer

R = TypeVar("R")
Rows = list[tuple[Any, ...]]
attempt: ContextVar["Attempt"] = ContextVar("attempt")
_BINARY = 1
_ACTIVE = TransactionStatus.ACTIVE
_MICROSECONDS = 1_000_000
_YEAR_2000 = datetime(2000, 1, 1, tzinfo=UTC)
"""From which the server counts its microseconds."""
_FINE = (ExecStatus.TUPLES_OK, ExecStatus.COMMAND_OK)


class Attempt:
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


class DeadlineConnection(Connection[tuple[Any, ...]]):
    """Answers come before `deadline` or not at all, also when the server hangs and no error ever comes.

    What takes something for its caller takes effect before `latest` or not at all, by the server's clock, which was
    read here last `checked` ago. A reply that was long under way makes that clock look slow, never fast: then the
    server gives up too early, and the clock is read again.
    """

    deadline = 0.0
    latest = 0.0
    prepares = True
    checked = 0.0
    heard = 0.0
    """When it was last given back in good order; zero for one that is new."""
    host = Host("", "", "")

    def __init__(self, pgconn: Any, *args: Any, **kwargs: Any) -> None:
        super().__init__(pgconn, *args, **kwargs)
        self._socket_watch = Watch(pgconn.socket)
        self._learned: set[bytes] = set()
        self._ahead = 0
        """Microseconds of the server's clock before ours."""

    @classmethod
    def _connect_gen(cls, *args: Any, **kwargs: Any) -> Generator[Any, Any, Any]:
        return attempt.get().watch(super()._connect_gen(*args, **kwargs))

    def wait(self, gen: Generator[Any, Any, R], *args: Any, **kwargs: Any) -> R:
        return super().wait(_bounded(gen, self.deadline), *args, **kwargs)

    @property
    def usable(self) -> bool:
        """An idle connection has nothing to say. If it does, the server has closed it."""
        return not self._socket_watch.readable()

    @property
    def is_silent(self) -> bool:
        """The time is over and there was no answer."""
        return self.pgconn.transaction_status == _ACTIVE and time.monotonic() >= self.deadline

    def drop(self) -> None:
        """Close without a word to the server or the loop; works for a broken connection and at exit too."""
        self.pgconn.finish()

    def abandon(self) -> None:
        """The same for one on which an answer is missing: the server may stop looking for it."""
        if self.pgconn.transaction_status == _ACTIVE:
            cancel.cancel(self.pgconn, self.drop)
        else:
            self.drop()

    def check(self, longest: float) -> None:
        """Read the server's clock, which shows too that somebody is there. Statements get `longest` seconds at most."""
        limits = [integer(self.pgconn.backend_pid), integer(max(1, int(longest * 1_000)))]
        answer = self.query(queries.CLOCK, limits)
        self.checked = time.monotonic()
        there = int.from_bytes(answer.get_value(0, 0) or b"", "big", signed=True)
        self._ahead = there - int(self.checked * _MICROSECONDS)

    def _moment(self) -> datetime:
        """`latest` by the server's clock."""
        return _YEAR_2000 + timedelta(microseconds=int(self.latest * _MICROSECONDS) + self._ahead)

    def execute_all(self, statement: str, parameters: Sequence[Any] = ()) -> Rows:
        """The rows of a statement, the driver's way."""
        cursor = self.execute(statement, parameters)
        return [] if cursor.description is None else cursor.fetchall()

    def execute_in_time(self, statement: str, parameters: Sequence[Any]) -> Rows:
        """The same for a statement whose last parameter is the moment until which it may take effect."""
        return self.execute_all(statement, [*parameters, self._moment()])

    @contextmanager
    def transaction_in_time(self) -> Iterator[None]:
        """One that is committed in time or not at all: the server looks at its clock and commits in one go.

        Left open after an error, so the connection is not used again.
        """
        self.execute("BEGIN")
        yield
        self.pgconn.send_query(f"SELECT dupeproof_in_time_v1('{self._moment()}'); COMMIT".encode())
        self._answer()

    def query(self, query: PreparedQuery, parameters: Sequence[bytes]) -> PGresult:
        """One statement, one answer, with nothing of the driver in between but its binding of libpq."""
        text, types, formats, name, dated = query
        if dated:
            limit = int(self.latest * _MICROSECONDS) + self._ahead
            parameters = [*parameters, limit.to_bytes(8, "big", signed=True)]
        if name and self.prepares:
            if name not in self._learned:
                self.pgconn.send_prepare(name, text, types)
                self._answer()
                self._learned.add(name)
            self.pgconn.send_query_prepared(name, parameters, formats, _BINARY)
        else:
            self.pgconn.send_query_params(text, parameters, types, formats, _BINARY)
        return self._answer()

    def _answer(self) -> PGresult:
        pgconn, watch = self.pgconn, self._socket_watch
        while pgconn.flush():
            watch.wait(self.deadline, writing=True)
            pgconn.consume_input()  # a server that cannot get rid of its answer does not read on either
        answer: PGresult | None = None
        while True:
            while pgconn.is_busy():
                watch.wait(self.deadline)
                pgconn.consume_input()
            result = pgconn.get_result()
            if result is None:
                break
            answer = result
        assert answer is not None
        if answer.status not in _FINE:
            raise error_of(answer)
        return answer


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
