"""The effect that must happen once for each message, and in order for each key: rows in the database under torture.

Nothing in the tables forbids a second effect; it would be seen.
"""

from collections import Counter
from typing import Any

from msgspec import Struct

from dupeproof.sql import Joined, join
from dupeproof.sql._sync.databases import opened

_TABLES = {
    "postgresql": (
        "CREATE TABLE IF NOT EXISTS torture_effects (place bigint GENERATED ALWAYS AS IDENTITY, id text, key text, before text)",
        "CREATE TABLE IF NOT EXISTS torture_keys (key text PRIMARY KEY, last text NOT NULL)",
    ),
    "sqlite": (
        "CREATE TABLE IF NOT EXISTS torture_effects (place INTEGER PRIMARY KEY, id TEXT, key TEXT, before TEXT)",
        "CREATE TABLE IF NOT EXISTS torture_keys (key TEXT PRIMARY KEY, last TEXT NOT NULL)",
    ),
}
_LAST = {
    "postgresql": "SELECT last FROM torture_keys WHERE key = :key FOR UPDATE",
    "sqlite": "SELECT last FROM torture_keys WHERE key = :key",
}
_SET_LAST = "INSERT INTO torture_keys (key, last) VALUES (:key, :id) ON CONFLICT (key) DO UPDATE SET last = excluded.last"
_WRITE = "INSERT INTO torture_effects (id, key, before) VALUES (:id, :key, :before)"
_COUNT = "SELECT count(*) FROM torture_effects"
_ROWS = "SELECT (SELECT count(*) FROM torture_effects) + (SELECT count(*) FROM torture_keys)"
_ALL = "SELECT id, count(*) FROM torture_effects GROUP BY id"
_OUT_OF_ORDER = "SELECT id FROM torture_effects WHERE before > id"


class Audit(Struct, frozen=True):
    effects: int
    lost: list[str]
    doubled: dict[str, int]
    """Effects of those that had more than one."""
    out_of_order: list[str]
    strangers: list[str]
    """Effects of messages that nobody published."""

    @property
    def is_exact(self) -> bool:
        return not (self.lost or self.doubled or self.out_of_order or self.strangers)


class Ledger:
    def __init__(self, database: str) -> None:
        self._opened = opened(database)

    def make(self) -> None:
        with self._opened() as connection:
            joined = join(connection)
            for statement in _TABLES[joined.dialect]:
                joined.execute(statement)

    def is_empty(self) -> bool:
        with self._opened() as connection:
            [(rows,)] = join(connection).execute(_ROWS)
        return int(rows) == 0

    def write(self, message: Any, connection: Any) -> None:
        """The handler of the torture."""
        joined = join(connection)
        rows = joined.execute(_LAST[joined.dialect], {"key": message.key})
        joined.count(_SET_LAST, {"key": message.key, "id": message.id})
        joined.count(_WRITE, {"id": message.id, "key": message.key, "before": rows[0][0] if rows else None})

    def effects(self) -> int:
        with self._opened() as connection:
            [(count,)] = join(connection).execute(_COUNT)
        return int(count)

    def counts(self) -> dict[str, int]:
        with self._opened() as connection:
            return dict(_plain(join(connection), _ALL))

    def out_of_order(self) -> list[str]:
        with self._opened() as connection:
            return [ident for (ident,) in _plain(join(connection), _OUT_OF_ORDER)]


def audit(published: set[str], counts: dict[str, int], out_of_order: list[str]) -> Audit:
    effects = Counter(counts)
    return Audit(
        effects=effects.total(),
        lost=sorted(ident for ident in published if not effects[ident]),
        doubled={ident: number for ident, number in sorted(effects.items()) if number > 1},
        out_of_order=sorted(out_of_order),
        strangers=sorted(ident for ident, number in effects.items() if number and ident not in published),
    )


def _plain(joined: Joined, statement: str) -> list[tuple[Any, ...]]:
    return joined.execute(statement)
