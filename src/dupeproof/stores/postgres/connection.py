# Written by tools/twins.py from src/dupeproof/stores/postgres/connection_async.py; change that file instead.
"""A connection of our own, on which waiting ends."""

import time
from collections.abc import Generator, Sequence
from contextvars import ContextVar
from typing import Any, TypeVar

from psycopg import Connection
from psycopg.pq import TransactionStatus

from dupeproof.sql.postgres import Host
from dupeproof.sql.psycopg import Psycopg
from dupeproof.stores.postgres import cancel
from dupeproof.stores.postgres.conversation import Conversation
from dupeproof.stores.postgres.faults import Timeout
from dupeproof.stores.postgres.protocols import Rows

R = TypeVar("R")
attempt: ContextVar["Attempt"] = ContextVar("attempt")
_ACTIVE = TransactionStatus.ACTIVE


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


class DeadlineConnection(Conversation, Connection[tuple[Any, ...]]):
    """One of our own: the driver's conversations end at the deadline too."""

    host = Host("", "", "")

    def __init__(self, pgconn: Any, *args: Any, **kwargs: Any) -> None:
        super().__init__(pgconn, *args, **kwargs)
        self._begin_conversation(pgconn)

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
    def adapted(self) -> Psycopg:
        return Psycopg(self)

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

    def execute_all(self, statement: str, parameters: Sequence[Any] = ()) -> Rows:
        """The rows of a statement, the driver's way."""
        cursor = self.execute(statement, parameters)
        return [] if cursor.description is None else cursor.fetchall()


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
