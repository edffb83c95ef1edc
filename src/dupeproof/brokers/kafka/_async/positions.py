"""How far a group is in each partition, kept in the user's database with the effects; and whose word counts."""

from collections.abc import Iterable, Mapping
from typing import Any

from dupeproof.brokers.errors import Fenced
from dupeproof.inbox import AsyncInbox
from dupeproof.sql import AsyncJoined, Translated, join_async
from dupeproof.sql.faults import table_missing
from dupeproof.sql.statements import Dialect

UNKNOWN = -1
"""Nothing is written down yet: Kafka's own record of the group counts."""
NEW = -2
"""The same, and nobody of the group ever had the partition."""
_TRANSLATED = Translated(table_missing("dupeproof_offsets", "inbox"))
_OF = "consumer_group = :group AND topic = :topic AND partition_id = :partition"
_INSERT = (
    "INSERT INTO dupeproof_offsets (consumer_group, topic, partition_id, next_offset, owner) "
    "VALUES (:group, :topic, :partition, :unknown, :owner) "
)
_UPSERT = _INSERT + "ON CONFLICT (consumer_group, topic, partition_id) DO UPDATE SET owner = excluded.owner"
_TAKE: dict[Dialect, str] = {
    "postgresql": _UPSERT,
    "sqlite": _UPSERT,
    "mysql": _INSERT + "ON DUPLICATE KEY UPDATE owner = :owner",
}
_READ = f"SELECT next_offset FROM dupeproof_offsets WHERE {_OF}"  # noqa: S608 - of our own words
_RECORD = f"UPDATE dupeproof_offsets SET next_offset = :next WHERE {_OF} AND owner = :owner"  # noqa: S608


class AsyncPositions:
    """One row per partition. To take a partition over is to put one's own name into its row.

    A transaction that ends by recording its position finds its own name there, or is rolled back with all it did. So
    one that was stopped while others took over cannot write, however late it continues.
    """

    def __init__(self, inbox: AsyncInbox, topic: str) -> None:
        self._inbox = inbox
        self._topic = topic

    async def take(self, partitions: Iterable[int], owner: str) -> dict[int, int]:
        """From where each is to be read, now that it is ours. Waits for whoever is just recording."""
        found = {}
        with _TRANSLATED:
            async with self._inbox.transaction() as connection:
                joined = await join_async(connection)
                for partition in sorted(partitions):
                    values = {**self._row(partition), "unknown": UNKNOWN, "owner": owner}
                    was_there = await joined.execute(_READ, self._row(partition))
                    await joined.execute(_TAKE[joined.dialect], values)
                    [(offset,)] = await joined.execute(_READ, self._row(partition))
                    found[partition] = offset if was_there else NEW
        return found

    async def record(self, connection: Any, ends: Mapping[int, tuple[int, str]]) -> None:
        """For each partition the next offset, and under which name we have it."""
        with _TRANSLATED:
            joined: AsyncJoined = await join_async(connection)
            for partition, (end, owner) in sorted(ends.items()):
                values = {**self._row(partition), "next": end, "owner": owner}
                if await joined.count(_RECORD, values) != 1:
                    raise Fenced(f"another consumer has taken over partition {partition} of {self._topic!r}")

    def _row(self, partition: int) -> dict[str, Any]:
        return {"group": self._inbox.group, "topic": self._topic, "partition": partition}
