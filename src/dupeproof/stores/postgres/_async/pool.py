"""A few connections, opened when needed, bounded in number.

Not psycopg_pool: that one has worker threads which do not survive a fork, and hands out connections that died while
idle unless it asks the server each time. Here a look at the socket is enough, and costs no round trip.
"""

import math
import os
import time

from dupeproof.stores._async.runtime import Turnstile
from dupeproof.stores.postgres._async.connection import AsyncBounded, Attempt, attempt
from dupeproof.stores.postgres.faults import Timeout
from dupeproof.stores.postgres.target import Target


class AsyncPool:
    def __init__(self, target: Target) -> None:
        self._target = target
        self._pid = os.getpid()
        self._idle: list[AsyncBounded] = []
        self._turnstile = Turnstile(target.pool)
        self._closed = False
        self.prepares = True
        """Until a transaction pooler turns out to stand in between, which loses what was prepared."""

    async def take(self, deadline: float) -> AsyncBounded:
        """A connection on which to say one thing, got and answered by the deadline. To be given back in any case."""
        if not await self._turnstile.enter(deadline - time.monotonic()):
            raise Timeout("all connections are taken")
        try:
            connection = self._reusable() or await connected(self._target, deadline)
        except BaseException:
            self._turnstile.leave()
            raise
        connection.deadline, connection.prepares = deadline, self.prepares
        return connection

    def give(self, connection: AsyncBounded) -> None:
        """Back, to be used again unless an interruption left something half said on it."""
        if self._closed or not connection.at_rest:
            connection.drop()
        else:
            self._idle.append(connection)
        self._turnstile.leave()

    def close(self) -> None:
        """Give up idle connections; those in use are given up by their users, who find the pool closed."""
        self._closed = True
        while self._idle:
            self._idle.pop().drop()

    def _reusable(self) -> AsyncBounded | None:
        while self._idle:
            connection = self._idle.pop()
            if connection.usable:
                return connection
            connection.drop()
        return None

    def __del__(self) -> None:
        if self._pid == os.getpid():
            for connection in self._idle:
                connection.drop()


async def connected(target: Target, deadline: float) -> AsyncBounded:
    """A connection, until the deadline or not at all; to be given another one before each thing said on it."""
    watched = Attempt(deadline)
    attempt.set(watched)
    try:
        connection = await AsyncBounded.connect(
            target.conninfo,
            autocommit=True,
            prepare_threshold=None,
            connect_timeout=max(2, math.ceil(target.timeout)),
        )
    except BaseException:
        watched.end()
        raise
    connection.deadline = deadline
    return connection
