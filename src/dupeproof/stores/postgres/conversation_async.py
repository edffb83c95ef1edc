"""A conversation on a connection of psycopg, past its cursors: one statement, one answer, before a deadline."""

import time
from collections.abc import AsyncIterator, Sequence
from contextlib import asynccontextmanager
from datetime import datetime
from typing import Any

import psycopg
from psycopg.pq import ExecStatus, TransactionStatus
from psycopg.pq.abc import PGconn, PGresult

from dupeproof.stores.postgres import queries
from dupeproof.stores.postgres.faults import error_of
from dupeproof.stores.postgres.literals import moment
from dupeproof.stores.postgres.protocols_async import Rows
from dupeproof.stores.postgres.queries import PreparedQuery
from dupeproof.stores.postgres.readiness_async import Watch
from dupeproof.stores.postgres.rows import integer

_BINARY = 1
_IDLE = TransactionStatus.IDLE
_ACTIVE = TransactionStatus.ACTIVE
_MICROSECONDS = 1_000_000
_FINE = (ExecStatus.TUPLES_OK, ExecStatus.COMMAND_OK)


class AsyncConversation:
    """Answers come before `deadline` or not at all, also when the server hangs and no error ever comes.

    What takes something for its caller takes effect before `latest` or not at all, by the server's clock, which was
    read here last `checked` ago. A reply that was long under way makes that clock look slow, never fast: then the
    server gives up too early, and the clock is read again.
    """

    pgconn: PGconn
    deadline = 0.0
    latest = 0.0
    prepares = True
    checked = 0.0
    heard = 0.0
    """When it was last given back in good order; zero for one that is new."""

    def _begin_conversation(self, pgconn: PGconn) -> None:
        self._socket_watch = Watch(pgconn.socket)
        self._learned: set[bytes] = set()
        self._learning = b""
        self._ahead = 0
        """Microseconds of the server's clock before ours."""

    @property
    def at_rest(self) -> bool:
        """Nothing was left half said."""
        return self.pgconn.transaction_status == _IDLE

    @property
    def _own_pid(self) -> int:
        """The server's process, whose settings may be changed if it has this number; that of a pooler has another."""
        return self.pgconn.backend_pid

    async def execute_all(self, statement: str, parameters: Sequence[Any] = ()) -> Rows:
        """The rows of a statement with `%s` for its parameters."""
        raise NotImplementedError

    async def check(self, longest: float) -> None:
        """Read the server's clock, which shows too that somebody is there. Statements get `longest` seconds at most."""
        limits = [integer(self._own_pid), integer(max(1, int(longest * 1_000)))]
        answer = await self.query(queries.CLOCK, limits)
        self.checked = time.monotonic()
        there = int.from_bytes(answer.get_value(0, 0) or b"", "big", signed=True)
        self._ahead = there - int(self.checked * _MICROSECONDS)

    def _moment(self) -> datetime:
        """`latest` by the server's clock."""
        return moment(int(self.latest * _MICROSECONDS) + self._ahead)

    async def execute_in_time(self, statement: str, parameters: Sequence[Any]) -> Rows:
        """The same for a statement whose last parameter is the moment until which it may take effect."""
        return await self.execute_all(statement, [*parameters, self._moment()])

    @asynccontextmanager
    async def transaction_in_time(self) -> AsyncIterator[None]:
        """One that is committed in time or not at all: the server looks at its clock and commits in one go.

        Left open after an error, so the connection is not used again.
        """
        self.pgconn.send_query(b"BEGIN")
        await self._answer()
        yield
        self.pgconn.send_query(f"SELECT dupeproof_in_time_v1('{self._moment()}'); COMMIT".encode())
        await self._answer()

    async def query(self, query: PreparedQuery, parameters: Sequence[bytes]) -> PGresult:
        """One statement, one answer, with nothing of the driver in between but its binding of libpq."""
        text, types, formats, name, dated = query
        if dated:
            limit = int(self.latest * _MICROSECONDS) + self._ahead
            parameters = [*parameters, limit.to_bytes(8, "big", signed=True)]
        if name and self.prepares:
            if name not in self._learned:
                await self._learn(name, text, types)
            self.pgconn.send_query_prepared(name, parameters, formats, _BINARY)
        else:
            self.pgconn.send_query_params(text, parameters, types, formats, _BINARY)
        return await self._answer()

    async def _learn(self, name: bytes, text: bytes, types: Sequence[int]) -> None:
        self._learning = name
        self.pgconn.send_prepare(name, text, types)
        try:
            await self._answer()
        except psycopg.Error:
            self._learning = b""
            raise
        self._learned.add(name)
        self._learning = b""

    async def drained(self) -> bool:
        """Whether it is at rest. A caller who was cancelled has left an answer behind: it is waited for, until the deadline.

        What he says next, on another connection, must not overtake it: a claim handed back before it was granted would
        be nobody's.
        """
        if self.pgconn.transaction_status == _ACTIVE and time.monotonic() < self.deadline:
            try:
                await self._answer()
            except psycopg.Error:
                self._learning = b""
            if self._learning:
                self._learned.add(self._learning)
                self._learning = b""
        return self.at_rest

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
