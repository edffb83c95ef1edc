"""A connection on which waiting ends, and a short way through it for the statements on the hot path."""

import time
from collections.abc import Generator, Sequence
from contextvars import ContextVar
from typing import Any, TypeVar

from psycopg import AsyncConnection
from psycopg.pq import ExecStatus, TransactionStatus
from psycopg.pq.abc import PGresult

from dupeproof.stores.postgres._async.waiting import Watch
from dupeproof.stores.postgres.faults import Timeout, error_of
from dupeproof.stores.postgres.questions import Question

R = TypeVar("R")
Rows = list[tuple[Any, ...]]
attempt: ContextVar["Attempt"] = ContextVar("attempt")
_BINARY = 1
_IDLE = TransactionStatus.IDLE
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


class AsyncBounded(AsyncConnection[tuple[Any, ...]]):
    """Answers come before `deadline` or not at all, also when the server hangs and no error ever comes."""

    deadline = 0.0
    prepares = True

    def __init__(self, pgconn: Any, *args: Any, **kwargs: Any) -> None:
        super().__init__(pgconn, *args, **kwargs)
        self._socket_watch = Watch(pgconn.socket)
        self._learned: set[bytes] = set()

    @classmethod
    def _connect_gen(cls, *args: Any, **kwargs: Any) -> Generator[Any, Any, Any]:
        return attempt.get().watch(super()._connect_gen(*args, **kwargs))

    async def wait(self, gen: Generator[Any, Any, R], *args: Any, **kwargs: Any) -> R:
        return await super().wait(_bounded(gen, self.deadline), *args, **kwargs)

    @property
    def usable(self) -> bool:
        """An idle connection has nothing to say. If it does, the server has closed it."""
        return not self._socket_watch.readable()

    @property
    def at_rest(self) -> bool:
        """Nothing was left half said."""
        return self.pgconn.transaction_status == _IDLE

    def drop(self) -> None:
        """Close without a word to the server or the loop; works for a broken connection and at exit too."""
        self.pgconn.finish()

    async def execute_all(self, statement: str, parameters: Sequence[Any] = ()) -> Rows:
        """The rows of a statement, the driver's way."""
        cursor = await self.execute(statement, parameters)
        return [] if cursor.description is None else await cursor.fetchall()

    async def ask(self, question: Question, parameters: Sequence[bytes]) -> PGresult:
        """One statement, one answer, with nothing of the driver in between but its binding of libpq."""
        text, types, formats, name = question
        if name and self.prepares:
            if name not in self._learned:
                self.pgconn.send_prepare(name, text, types)
                await self._answer()
                self._learned.add(name)
            self.pgconn.send_query_prepared(name, parameters, formats, _BINARY)
        else:
            self.pgconn.send_query_params(text, parameters, types, formats, _BINARY)
        return await self._answer()

    async def _answer(self) -> PGresult:
        pgconn, watch = self.pgconn, self._socket_watch
        while pgconn.flush():
            await watch.wait(self.deadline, writing=True)
            pgconn.consume_input()  # a server that cannot get rid of its answer does not read on either
        answer: PGresult | None = None
        while True:
            while pgconn.is_busy():
                await watch.wait(self.deadline)
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
