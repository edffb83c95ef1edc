"""How far a group is in each partition, kept in the user's database with the effects; and whose word counts."""

from collections.abc import Mapping
from typing import Any

from dupeproof.brokers.errors import Fenced
from dupeproof.brokers.kafka.reader import Start
from dupeproof.brokers.kafka.wire import Place
from dupeproof.inbox import AsyncInbox
from dupeproof.sql import AsyncCallerConnection, Translated, adapt_async
from dupeproof.sql.faults import table_missing
from dupeproof.sql.statements import Dialect

UNKNOWN = -1
"""Nothing is written down yet: Kafka's own record of the group counts."""
_TRANSLATED = Translated(table_missing("dupeproof_offsets or dupeproof_topics", "inbox"))
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
_IS_OURS = f"SELECT 1 FROM dupeproof_offsets WHERE {_OF} AND owner = :owner"  # noqa: S608
_READ_ID = f"SELECT topic_id FROM dupeproof_topics WHERE {_OF}"  # noqa: S608
_INSERT_ID = (
    "INSERT INTO dupeproof_topics (consumer_group, topic, partition_id, topic_id) "
    "VALUES (:group, :topic, :partition, :id) "
)
_UPSERT_ID = (
    _INSERT_ID
    + "ON CONFLICT (consumer_group, topic, partition_id) DO UPDATE SET topic_id = excluded.topic_id"
)
_WRITE_ID: dict[Dialect, str] = {
    "postgresql": _UPSERT_ID,
    "sqlite": _UPSERT_ID,
    "mysql": _INSERT_ID + "ON DUPLICATE KEY UPDATE topic_id = :id",
}


class AsyncPositions:
    """One row per partition. To take a partition over is to put one's own name into its row.

    A transaction that ends by recording its position finds its own name there, or is rolled back with all it did. So
    one that was stopped while others took over cannot write, however late it continues. Beside it stands the id of the topic
    that the position is one of: a topic that was made anew under the old name has another.
    """

    def __init__(self, inbox: AsyncInbox) -> None:
        self._inbox = inbox

    async def take(self, places: Mapping[Place, str], owner: str) -> dict[Place, Start]:
        """From where each is to be read, now that it is ours. Waits for whoever is just recording."""
        with _TRANSLATED:
            async with self._inbox.transaction() as connection:
                adapted = await adapt_async(connection)
                return {
                    place: await self._take(adapted, place, places[place], owner) for place in sorted(places)
                }

    async def _take(self, adapted: AsyncCallerConnection, place: Place, ident: str, owner: str) -> Start:
        row = self._row(place)
        had = bool(await adapted.execute(_READ, row))
        await adapted.execute(_TAKE[adapted.dialect], {**row, "unknown": UNKNOWN, "owner": owner})
        [(offset,)] = await adapted.execute(_READ, row)
        known = next((each for (each,) in await adapted.execute(_READ_ID, row)), "")
        if known and known == ident:
            return Start(offset, had=had)
        if offset == UNKNOWN or (known and ident):
            start = Start(offset if offset == UNKNOWN else 0, had=had, anew=offset != UNKNOWN)
            await self._write(adapted, place, start.offset, ident, owner)
            return start
        return Start(offset, had=had, sure=False)

    async def confirm(self, places: Mapping[Place, tuple[int, str]], owner: str) -> None:
        """Write down the offset, and that it is one of this topic."""
        with _TRANSLATED:
            async with self._inbox.transaction() as connection:
                adapted = await adapt_async(connection)
                for place, (offset, ident) in sorted(places.items()):
                    await self._write(adapted, place, offset, ident, owner)

    async def _write(
        self, adapted: AsyncCallerConnection, place: Place, offset: int, ident: str, owner: str
    ) -> None:
        row = self._row(place)
        await adapted.count(_RECORD, {**row, "next": offset, "owner": owner})
        # Asked for: MySQL does not count a row that had these values already.
        is_ours = await adapted.execute(_IS_OURS, {**row, "owner": owner})
        if is_ours and ident:
            await adapted.execute(_WRITE_ID[adapted.dialect], {**row, "id": ident})

    async def record(self, connection: Any, ends: Mapping[Place, tuple[int, str]]) -> None:
        """For each partition the next offset, and under which name we have it."""
        with _TRANSLATED:
            adapted: AsyncCallerConnection = await adapt_async(connection)
            for place, (end, owner) in sorted(ends.items()):
                if await adapted.count(_RECORD, {**self._row(place), "next": end, "owner": owner}) != 1:
                    raise Fenced(f"another consumer has taken over partition {place[1]} of {place[0]!r}")

    def _row(self, place: Place) -> dict[str, Any]:
        return {"group": self._inbox.group, "topic": place[0], "partition": place[1]}
