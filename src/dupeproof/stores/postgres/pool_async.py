"""A few connections, opened when needed, bounded in number.

Not psycopg_pool: that one has worker threads which do not survive a fork, and hands out connections that died while
idle unless it asks the server each time. Here a look at the socket is enough, and costs no round trip.
"""

import os
import time

import psycopg
from psycopg.pq import TransactionStatus

from dupeproof.sql import hosts_async as hosts
from dupeproof.stores.postgres.connection_async import AsyncDeadlineConnection, Attempt, attempt
from dupeproof.stores.postgres.faults import Timeout
from dupeproof.stores.postgres.target import Target
from dupeproof.stores.runtime_async import Turnstile

_CHECKED_EVERY = 15.0
"""Seconds after which a connection is asked for the time before it is used: it may have been dropped without a word, and
clocks do not run alike."""
_SHARE_FOR_A_CHECK = 4
_IDLE = TransactionStatus.IDLE
"""Nothing was left half said."""
_JUST_HEARD = 0.005
"""Seconds for which one that has answered need not be looked at: a look is a system call."""


class AsyncPool:
    def __init__(self, target: Target) -> None:
        self._target = target
        self._margin = target.margin
        self._pid = os.getpid()
        self._idle: list[AsyncDeadlineConnection] = []
        self._turnstile = Turnstile(target.pool)
        self._closed = False
        self.prepares = True
        """Until a transaction pooler turns out to stand in between, which loses what was prepared."""

    async def take(self, deadline: float) -> AsyncDeadlineConnection:
        """A connection on which to say one thing, got and answered by the deadline. To be given back in any case."""
        now = time.monotonic()
        if not await self._turnstile.enter(deadline - now):
            raise Timeout("all connections are taken")
        try:
            connection = None
            while connection is None and self._idle:
                idle = self._idle.pop()
                if (now - idle.heard < _JUST_HEARD or idle.usable) and (
                    now - idle.checked < _CHECKED_EVERY or await self._answers(idle, deadline)
                ):
                    connection = idle
                else:
                    idle.drop()
            if connection is None:
                connection = await connected(self._target, deadline)
        except BaseException:
            self._turnstile.leave()
            raise
        connection.deadline, connection.prepares = deadline, self.prepares
        connection.latest = deadline - self._margin
        return connection

    async def give(self, connection: AsyncDeadlineConnection) -> None:
        """Back, to be used again unless something was left half said on it."""
        idle = connection.pgconn.transaction_status == _IDLE
        if not (idle or await self._is_drained(connection)) or self._closed:
            if connection.is_silent:
                self._distrust(connection, connection.latest + self._margin - self._target.timeout)
            connection.abandon()
        else:
            connection.heard = time.monotonic()
            self._idle.append(connection)
        self._turnstile.leave()

    async def _is_drained(self, connection: AsyncDeadlineConnection) -> bool:
        try:
            return await connection.drained()
        except BaseException:
            connection.abandon()
            self._turnstile.leave()
            raise

    def close(self) -> None:
        """Give up idle connections; those in use are given up by their users, who find the pool closed."""
        self._closed = True
        while self._idle:
            self._idle.pop().drop()

    async def _answers(self, connection: AsyncDeadlineConnection, deadline: float) -> bool:
        """Not for long: if it does not, there must be time for another one."""
        now = time.monotonic()
        connection.deadline = now + (deadline - now) / _SHARE_FOR_A_CHECK
        try:
            await connection.check(self._target.timeout - self._margin)
        except psycopg.Error:
            self._distrust(connection, now)
            return False
        except BaseException:
            connection.abandon()
            raise
        return True

    def _distrust(self, silent: AsyncDeadlineConnection, since: float) -> None:
        """What silenced one has most likely silenced the others on that host that were not heard since it was asked."""
        self._target.hosts.silent(silent.host, time.monotonic())
        for _ in range(len(self._idle)):
            try:
                connection = self._idle.pop(0)
            except IndexError:
                return  # other threads take some meanwhile
            if connection.host == silent.host and connection.heard < since:
                connection.drop()
            else:
                self._idle.append(connection)

    def __del__(self) -> None:
        if self._pid == os.getpid():
            for connection in self._idle:
                connection.drop()


async def connected(target: Target, deadline: float) -> AsyncDeadlineConnection:
    """A connection, until the deadline or not at all; to be given another one before each thing said on it."""

    async def connect(conninfo: str, until: float) -> AsyncDeadlineConnection:
        watched = Attempt(until)
        attempt.set(watched)
        try:
            connection = await AsyncDeadlineConnection.connect(
                conninfo, autocommit=True, prepare_threshold=None
            )
        except BaseException:
            watched.end()
            raise
        connection.deadline = until
        try:
            await connection.check(target.timeout - target.margin)
        except BaseException:
            connection.abandon()
            raise
        return connection

    connection, host = await hosts.connected(target.hosts, deadline, connect)
    connection.host, connection.deadline = host, deadline
    return connection
