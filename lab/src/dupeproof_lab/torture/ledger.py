"""The effect that must happen once for each message, and in order for each key: rows in the database under torture.

Nothing in the tables forbids a second effect; it would be seen.
"""

from collections import Counter
from collections.abc import Iterable, Mapping
from types import MappingProxyType
from typing import Any

from msgspec import Struct

from dupeproof.brokers.base import Message
from dupeproof.errors import ConfigError
from dupeproof.sql import CallerConnection, adapt, adapt_async
from dupeproof.sql.databases import opened
from dupeproof_lab.torture.faults import COPY, OVERTAKING
from dupeproof_lab.torture.probe import name

_NONE: Mapping[str, Any] = MappingProxyType({})
_TABLES = {
    "postgresql": (
        "CREATE TABLE IF NOT EXISTS torture_effects (place bigint GENERATED ALWAYS AS IDENTITY, id text, key text, copy text)",
        "CREATE TABLE IF NOT EXISTS torture_keys (key text PRIMARY KEY, last text NOT NULL)",
    ),
    "sqlite": (
        "CREATE TABLE IF NOT EXISTS torture_effects (place INTEGER PRIMARY KEY, id TEXT, key TEXT, copy TEXT)",
        "CREATE TABLE IF NOT EXISTS torture_keys (key TEXT PRIMARY KEY, last TEXT NOT NULL)",
    ),
}
_SET_LAST = "INSERT INTO torture_keys (key, last) VALUES (:key, :id) ON CONFLICT (key) DO UPDATE SET last = excluded.last"
"""Locks the key until the commit, so the places of its effects are in the order of their commits."""
_WRITE = "INSERT INTO torture_effects (id, key, copy) VALUES (:id, :key, :copy)"
_COUNT = "SELECT count(*) FROM torture_effects"
_ROWS = "SELECT (SELECT count(*) FROM torture_effects) + (SELECT count(*) FROM torture_keys)"
_ALL = (
    "SELECT id, max(effects) FROM (SELECT id, count(*) AS effects FROM torture_effects GROUP BY id, copy) AS copies "
    "GROUP BY id"
)
_OUT_OF_ORDER = (
    "SELECT id FROM (SELECT id, max(id) OVER (PARTITION BY key ORDER BY place "
    "ROWS BETWEEN UNBOUNDED PRECEDING AND 1 PRECEDING) AS before "
    "FROM (SELECT id, key, min(place) AS place FROM torture_effects WHERE key NOT LIKE :overtaking GROUP BY id, key) AS firsts"
    ") AS ordered WHERE before > id"
)
"""First effects that came after the first effect of a later message with their key."""


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
    def __init__(self, database: str, *, locks: bool = True) -> None:
        self._opened = opened(database)
        self._effect = (_SET_LAST, _WRITE) if locks else (_WRITE,)

    def make(self) -> None:
        with self._opened() as connection:
            adapted = adapt(connection)
            if adapted.dialect not in _TABLES:
                raise ConfigError(
                    "--database takes postgresql://… or sqlite:///file.db; the torture knows no other"
                )
            for statement in _TABLES[adapted.dialect]:
                adapted.execute(statement)

    def is_empty(self) -> bool:
        with self._opened() as connection:
            [(rows,)] = adapt(connection).execute(_ROWS)
        return int(rows) == 0

    def write(self, message: Message, connection: Any) -> None:
        """The handler of the torture."""
        adapted, values = adapt(connection), _values(message)
        for statement in self._effect:
            adapted.count(statement, values)

    async def write_async(self, message: Message, connection: Any) -> None:
        """The same for tasks."""
        adapted, values = await adapt_async(connection), _values(message)
        for statement in self._effect:
            await adapted.count(statement, values)

    def effects(self) -> int:
        with self._opened() as connection:
            [(count,)] = adapt(connection).execute(_COUNT)
        return int(count)

    def counts(self) -> dict[str, int]:
        """Effects of each message; of one without an id, of that one of its copies that had most."""
        with self._opened() as connection:
            return dict(_plain(adapt(connection), _ALL))

    def out_of_order(self) -> list[str]:
        with self._opened() as connection:
            rows = _plain(adapt(connection), _OUT_OF_ORDER, {"overtaking": f"{OVERTAKING}%"})
        return [ident for (ident,) in rows]


def _values(message: Message) -> dict[str, Any]:
    """What is published again without an id is another message: each copy of it has an effect of its own."""
    copy = message.headers.get(COPY, "") if message.id is None else ""
    return {"id": name(message), "key": message.key, "copy": copy}


def calls_out_of_order(calls: Iterable[tuple[float, str, str]]) -> list[str]:
    """The same as told by a handler's returns: when, which message, with which key."""
    latest: dict[str, str] = {}
    seen: set[str] = set()
    found = []
    for _, ident, key in sorted(calls):
        if ident in seen or key.startswith(OVERTAKING):
            continue
        seen.add(ident)
        if ident < latest.get(key, ""):
            found.append(ident)
        latest[key] = max(ident, latest.get(key, ""))
    return found


def audit(published: set[str], counts: dict[str, int], out_of_order: list[str]) -> Audit:
    effects = Counter(counts)
    return Audit(
        effects=effects.total(),
        lost=sorted(ident for ident in published if not effects[ident]),
        doubled={ident: number for ident, number in sorted(effects.items()) if number > 1},
        out_of_order=sorted(out_of_order),
        strangers=sorted(ident for ident, number in effects.items() if number and ident not in published),
    )


def _plain(
    adapted: CallerConnection, statement: str, values: Mapping[str, Any] = _NONE
) -> list[tuple[Any, ...]]:
    return adapted.execute(statement, values)
