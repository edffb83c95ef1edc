"""A message queue in an SQLite file that delivers at least once, as brokers do.

A message that is delivered is hidden for a while. If it is not acknowledged by then, because its consumer is dead,
it is delivered again. Some orders are sent twice by the producer on top of that.
"""

import random
import sqlite3
import time
from collections.abc import Iterator
from pathlib import Path

from msgspec import Struct

HIDDEN_SECONDS = 0.4
_POLL_SECONDS = 0.01
_RESENT_SHARE = 0.1

_SCHEMA = """
CREATE TABLE messages (
    id         INTEGER PRIMARY KEY,
    order_id   TEXT    NOT NULL,
    cents      INTEGER NOT NULL,
    hidden_to  REAL    NOT NULL DEFAULT 0,
    deliveries INTEGER NOT NULL DEFAULT 0,
    acked      INTEGER NOT NULL DEFAULT 0
)
"""


class Message(Struct, frozen=True):
    id: int
    order_id: str
    cents: int


class Progress(Struct, frozen=True):
    acked: int
    messages: int
    deliveries: int


def connect(path: Path) -> sqlite3.Connection:
    """Not forced to disk at each commit: here processes are killed, not machines, and what they wrote stays."""
    connection = sqlite3.connect(path, timeout=30, isolation_level=None)
    connection.execute("PRAGMA journal_mode = WAL")
    connection.execute("PRAGMA synchronous = NORMAL")
    return connection


class Queue:
    def __init__(self, path: Path) -> None:
        self._connection = connect(path)

    def send(self, messages: list[Message]) -> None:
        rows = [(message.id, message.order_id, message.cents) for message in messages]
        self._connection.execute(_SCHEMA)
        self._connection.execute("BEGIN")
        self._connection.executemany("INSERT INTO messages (id, order_id, cents) VALUES (?, ?, ?)", rows)
        self._connection.execute("COMMIT")

    def deliveries(self) -> Iterator[Message]:
        """Messages as they come, until all are acknowledged."""
        while True:
            if (message := self._take()) is not None:
                yield message
            elif self._is_done():
                return
            else:
                time.sleep(_POLL_SECONDS)

    def ack(self, message: Message) -> None:
        self._connection.execute("UPDATE messages SET acked = 1 WHERE id = ?", (message.id,))

    def put_back(self, message: Message, seconds: float) -> None:
        """Not now: deliver it again later."""
        self._connection.execute(
            "UPDATE messages SET hidden_to = ? WHERE id = ?", (time.time() + seconds, message.id)
        )

    def progress(self) -> Progress:
        query = "SELECT sum(acked), count(*), sum(deliveries) FROM messages"
        return Progress(*self._connection.execute(query).fetchone())

    def close(self) -> None:
        self._connection.close()

    def _take(self) -> Message | None:
        now = time.time()
        row = self._connection.execute(
            "UPDATE messages SET hidden_to = ?, deliveries = deliveries + 1 WHERE id = "
            "(SELECT id FROM messages WHERE acked = 0 AND hidden_to <= ? ORDER BY id LIMIT 1) "
            "RETURNING id, order_id, cents",
            (now + HIDDEN_SECONDS, now),
        ).fetchone()
        return None if row is None else Message(*row)

    def _is_done(self) -> bool:
        query = "SELECT NOT EXISTS (SELECT 1 FROM messages WHERE acked = 0)"
        return bool(self._connection.execute(query).fetchone()[0])


def make_messages(orders: int, seed: int) -> list[Message]:
    """One message per order, and for some orders a second one a little later; the same for the same seed."""
    rng = random.Random(seed)  # noqa: S311 - no secret
    places: list[tuple[float, int]] = [(float(number), number) for number in range(orders)]
    places += [
        (number + rng.uniform(1, 50), number)
        for number in rng.sample(range(orders), round(orders * _RESENT_SHARE))
    ]
    cents = [rng.randrange(100, 100_000) for _ in range(orders)]
    return [
        Message(place, order_name(number), cents[number])
        for place, (_, number) in enumerate(sorted(places), start=1)
    ]


def order_name(number: int) -> str:
    return f"order-{number + 1:04}"
