# Written by tools/twins.py from src/dupeproof/outbox/postgres_async.py; change that file instead.
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
from dupeproof.stores.postgres.callers_pool import pool_over
from dupeproof.stores.postgres.connection import DeadlineConnection
from dupeproof.stores.postgres.pool import Pool, connected
from dupeproof.stores.postgres.protocols import StorePool
from dupeproof.stores.postgres.store import PostgresStore
from dupeproof.stores.postgres.target import Limits, Target, target
from dupeproof.stores.urls import StoreURL


class PostgresSource(PostgresStore):
    """The store's connections, retries and migrations, with the verbs of an outbox."""

    def __init__(
        self, limits: Limits, open_pool: Callable[[], StorePool], server: Target | None = None
    ) -> None:
        super().__init__(limits, open_pool)
        self._server = server
        """Where to listen. A pool or engine of the caller's lends no connection for so long."""
        self._listener: DeadlineConnection | None = None

    def take(self, token: bytes, lease: int, shards: int, most: int) -> list[Message]:
        return [message_of(row) for row in self._run("outbox_take", [token, lease, shards, most])]

    def record(self, delivered: Delivered) -> int:
        # Sorted, so that two who were both at work on a shard do not wait for each other in a circle.
        sent = sorted(delivered.sent)
        failed = delivered.failed
        counts: Counter[int] = Counter()
        for shard, number in Counter(shard for shard, _ in sent).items():
            counts[shard_of(shard)] += number
        [(removed,)] = self._run(
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

    def status(self) -> OutboxStatus:
        [(*row, seen)] = self._run("outbox_status")
        row.append(None if seen is None else max(0.0, seen))  # a lease ends in the future
        return OutboxStatus(*row)

    def dead(self, limit: int) -> list[DeadMessage]:
        return [DeadMessage(*row) for row in self._run("outbox_dead", [limit])]

    def retry(self, ids: Sequence[str] | None) -> list[str]:
        return self._revived(ids, back=True)

    def drop(self, ids: Sequence[str] | None) -> list[str]:
        return self._revived(ids, back=False)

    def _revived(self, ids: Sequence[str] | None, *, back: bool) -> list[str]:
        return [row[0] for row in self._run("outbox_revive", [None if ids is None else list(ids), back])]

    def tidy(self) -> None:
        self._run("outbox_tidy")

    def purge(self, limit: int) -> int:
        [(gone,)] = self._run("outbox_purge", [limit])
        return int(gone)

    def wake_socket(self) -> int | None:
        """A connection of its own listens. Without it, as behind a transaction pooler, there is still the poll."""
        if self._listener is not None and self._listener.closed:
            self._listener = None
        if self._listener is None and self._server is not None:
            listener, deadline = None, time.monotonic() + self._target.timeout
            try:
                listener = connected(self._server, deadline)
                listener.execute_all(f"LISTEN {CHANNEL}")
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

    def close(self) -> None:
        listener, self._listener = self._listener, None
        if listener is not None:
            listener.drop()
        super().close()


def open_source(url: StoreURL) -> PostgresSource:
    server = target(url)
    return PostgresSource(server, partial(Pool, server), server)


def source_over(client: Any) -> PostgresSource:
    return PostgresSource(*pool_over(client))
