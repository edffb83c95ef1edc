"""The outbox in PostgreSQL: decisions in versioned functions of the database, wake-ups by NOTIFY."""

import time
from collections import Counter
from collections.abc import Callable, Sequence
from functools import partial
from typing import Any

import psycopg

from dupeproof.core.events import logger
from dupeproof.outbox.insert_statements import CHANNEL
from dupeproof.outbox.messages import Message, message_of, shard_of
from dupeproof.outbox.reports import DeadMessage, Delivered, OutboxStatus
from dupeproof.stores.postgres.callers_pool_async import pool_over
from dupeproof.stores.postgres.connection_async import AsyncDeadlineConnection
from dupeproof.stores.postgres.pool_async import AsyncPool, connected
from dupeproof.stores.postgres.protocols_async import AsyncStorePool
from dupeproof.stores.postgres.store_async import AsyncPostgresStore
from dupeproof.stores.postgres.target import Limits, Target, target
from dupeproof.stores.urls import StoreURL


class AsyncPostgresSource(AsyncPostgresStore):
    """The store's connections, retries and migrations, with the verbs of an outbox."""

    def __init__(
        self, limits: Limits, open_pool: Callable[[], AsyncStorePool], server: Target | None = None
    ) -> None:
        super().__init__(limits, open_pool)
        self._server = server
        """Where to listen. A pool or engine of the caller's lends no connection for so long."""
        self._listener: AsyncDeadlineConnection | None = None

    async def take(self, token: bytes, lease: int, shards: int, most: int) -> list[Message]:
        return [message_of(row) for row in await self._run("outbox_take", [token, lease, shards, most])]

    async def record(self, delivered: Delivered) -> int:
        # Sorted, so that two who were both at work on a shard do not wait for each other in a circle.
        sent = sorted(delivered.sent)
        failed = delivered.failed
        counts: Counter[int] = Counter()
        for shard, number in Counter(shard for shard, _ in sent).items():
            counts[shard_of(shard)] += number
        [(removed,)] = await self._run(
            "outbox_settle",
            [
                delivered.token,
                delivered.shards,
                [counts[shard] for shard in delivered.shards],
                [shard for shard, _ in sent],
                [seq for _, seq in sent],
                delivered.keep,
                [each.message.place[0] for each in failed],
                [each.message.place[1] for each in failed],
                [each.error for each in failed],
                [each.delay for each in failed],
                [each.attempts for each in failed],
                [each.dead for each in failed],
                delivered.key_waits,
            ],
        )
        return int(removed)

    async def status(self) -> OutboxStatus:
        [(*row, seen)] = await self._run("outbox_status")
        row.append(None if seen is None else max(0.0, seen))  # a lease ends in the future
        return OutboxStatus(*row)

    async def dead(self, limit: int) -> list[DeadMessage]:
        return [DeadMessage(*row) for row in await self._run("outbox_dead", [limit])]

    async def retry(self, ids: Sequence[str] | None) -> list[str]:
        return await self._revived(ids, back=True)

    async def drop(self, ids: Sequence[str] | None) -> list[str]:
        return await self._revived(ids, back=False)

    async def _revived(self, ids: Sequence[str] | None, *, back: bool) -> list[str]:
        return [
            row[0] for row in await self._run("outbox_revive", [None if ids is None else list(ids), back])
        ]

    async def tidy(self) -> None:
        await self._run("outbox_tidy")

    async def purge(self, limit: int) -> int:
        [(gone,)] = await self._run("outbox_purge", [limit])
        return int(gone)

    async def wake_socket(self) -> int | None:
        """A connection of its own listens. Without it, as behind a transaction pooler, there is still the poll."""
        if self._listener is not None and self._listener.closed:
            self._listener = None
        if self._listener is None and self._server is not None:
            listener, deadline = None, time.monotonic() + self._target.timeout
            try:
                listener = await connected(self._server, deadline)
                await listener.execute_all(f"LISTEN {CHANNEL}")
            except (psycopg.Error, OSError) as exc:
                logger.warning("The relay cannot listen for new messages, and polls: %s", type(exc).__name__)
                if listener is not None:
                    listener.drop()
                return None
            self._listener = listener
        return None if self._listener is None else self._listener.pgconn.socket

    def woken(self) -> None:
        if self._listener is None:
            return
        try:
            self._listener.pgconn.consume_input()
            while self._listener.pgconn.notifies() is not None:
                continue
        except psycopg.Error:
            self._listener.pgconn.finish()  # the next look opens another

    async def close(self) -> None:
        listener, self._listener = self._listener, None
        if listener is not None:
            listener.drop()
        await super().close()


def open_source(url: StoreURL) -> AsyncPostgresSource:
    server = target(url)
    return AsyncPostgresSource(server, partial(AsyncPool, server), server)


def source_over(client: Any) -> AsyncPostgresSource:
    return AsyncPostgresSource(*pool_over(client))
