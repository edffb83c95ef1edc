"""Our tables as data, read out of the SQL files that make them: for SQLAlchemy, for Alembic, for grants."""

import re
from collections.abc import Collection
from functools import cache
from typing import Literal, get_args

from msgspec import Struct
from msgspec.structs import replace

from dupeproof.errors import ConfigError
from dupeproof.sql.statements import Dialect, split, without_comments
from dupeproof.stores import mysql
from dupeproof.stores.postgres import migrations
from dupeproof.stores.sqlite import connection as sqlite

Group = Literal["records", "sequences", "inbox", "outbox"]
GROUPS: dict[Group, tuple[str, ...]] = {
    "records": ("dupeproof_records", "dupeproof_marks"),
    "sequences": ("dupeproof_sequences",),
    "inbox": (
        "dupeproof_inbox",
        "dupeproof_entities",
        "dupeproof_lateness",
        "dupeproof_windows",
        "dupeproof_attempts",
        "dupeproof_offsets",
        "dupeproof_topics",
    ),
    "outbox": (
        "dupeproof_outbox",
        "dupeproof_outbox_shards",
        "dupeproof_outbox_hands",
        "dupeproof_outbox_failing",
        "dupeproof_outbox_dead",
        "dupeproof_outbox_sent",
    ),
}
"""Which tables belong together. The table of migrations of PostgreSQL belongs to all of them."""
LEDGER = "dupeproof_migrations"

_CREATE_TABLE = re.compile(
    r"CREATE TABLE (?:IF NOT EXISTS )?(\w+) \((.*?)\)((?:\s*(?:WITH \([^)]*\)|WITHOUT ROWID|ENGINE = InnoDB))?)",
    re.DOTALL,
)
_CREATE_INDEX = re.compile(
    r"CREATE (UNIQUE )?INDEX (?:IF NOT EXISTS )?(\w+)\s+ON (\w+) \(([^)]*)\)(?:\s+WHERE (.*))?", re.DOTALL
)
_ALTER_TABLE = re.compile(r"ALTER TABLE (\w+)\s+(.*)", re.DOTALL)
_STORAGE = re.compile(r"(?:WITH|SET) \((.*)\)", re.DOTALL)
_COLUMN = re.compile(
    r"`?(?P<name>\w+)`?\s+(?P<type>\w+(?:\([\d, ]+\))?(?:\[\])?)"
    r"(?:\s+CHARACTER SET (?P<charset>\w+))?(?:\s+COLLATE (?P<collation>\w+))?(?P<rest>.*)",
    re.DOTALL,
)
_DEFAULT = re.compile(r"(?<!BY )DEFAULT ('[^']*'|[\w.+-]+(?:\(\))?)")
_LIST = re.compile(r"[\w`]+")


class Column(Struct, frozen=True):
    name: str
    type: str
    """As the file has it."""
    nullable: bool
    default: str | None = None
    numbered: bool = False
    """By the database, where no number is given."""
    charset: str | None = None
    collation: str | None = None


class Index(Struct, frozen=True):
    name: str
    columns: tuple[str, ...]
    unique: bool = False
    where: str | None = None


class Table(Struct, frozen=True):
    name: str
    columns: tuple[Column, ...] = ()
    key: tuple[str, ...] = ()
    indexes: tuple[Index, ...] = ()
    storage: dict[str, str] = {}
    """Storage parameters of PostgreSQL."""
    rowid: bool = True
    """False for tables of SQLite that have none."""


@cache
def tables(dialect: Dialect) -> dict[str, Table]:
    """All of them as they are at the end, by name."""
    found: dict[str, Table] = {}
    for statement in _statements(dialect):
        _read(statement, found)
    if dialect == "sqlite":  # which allows NULL in a key that is not said to be without
        return found
    return {name: _without_null_in_key(table) for name, table in found.items()}


def _without_null_in_key(table: Table) -> Table:
    columns = (
        replace(column, nullable=False) if column.name in table.key else column for column in table.columns
    )
    return replace(table, columns=tuple(columns))


def names_in(groups: tuple[str, ...]) -> frozenset[str]:
    """The tables of these groups; of all groups where none is named."""
    for group in groups:
        if group not in get_args(Group):
            raise ConfigError(f"there is no group of tables {group!r}; use {', '.join(get_args(Group))}")
    return frozenset(
        [
            LEDGER,
            *(name for group, names in GROUPS.items() if not groups or group in groups for name in names),
        ]
    )


def chosen(dialect: Dialect, groups: tuple[str, ...]) -> list[Table]:
    wanted = names_in(groups)
    return [table for name, table in tables(dialect).items() if name in wanted]


def statements_of(dialect: Dialect, wanted: Collection[str]) -> list[str]:
    """What makes these tables where they are not there, on SQLite, MariaDB and MySQL."""
    about = re.compile(r"CREATE (?:TABLE|INDEX) IF NOT EXISTS (?:\w+ ON )?(\w+)")
    return [
        one for one in _statements(dialect) if (found := about.match(one)) is not None and found[1] in wanted
    ]


def _statements(dialect: Dialect) -> list[str]:
    if dialect == "postgresql":
        texts = [migrations.CREATE_LEDGER, *(each.text for each in migrations.migrations())]
        return [statement for text in texts for statement in split(text)]
    return split(sqlite.SCHEMA if dialect == "sqlite" else mysql.SCHEMA)


def _read(statement: str, found: dict[str, Table]) -> None:
    statement = without_comments(statement)
    if made := _CREATE_TABLE.fullmatch(statement):
        name, body, rest = made.groups()
        found[name] = _table(name, body, rest, found)
    elif index := _CREATE_INDEX.fullmatch(statement):
        unique, name, table, columns, where = index.groups()
        whole = Index(name, _names(columns), bool(unique), where)
        found[table] = replace(found[table], indexes=(*found[table].indexes, whole))
    elif altered := _ALTER_TABLE.fullmatch(statement):
        name, changes = altered.groups()
        for change in _parts(changes):
            found[name] = _altered(found[name], change)
    elif re.match(r"(CREATE|ALTER|DROP) (UNIQUE )?(TABLE|INDEX)\b", statement):
        raise AssertionError(f"not understood: {statement}")


def _table(name: str, body: str, rest: str, found: dict[str, Table]) -> Table:
    table = Table(name, rowid="WITHOUT ROWID" not in rest, storage=_storage(rest))
    for part in _parts(body):
        if part.startswith("LIKE "):
            copied = [replace(column, default=None, numbered=False) for column in found[part[5:]].columns]
            table = replace(table, columns=(*table.columns, *copied))
        else:
            table = _with(table, part)
    return table


def _with(table: Table, part: str) -> Table:
    """With one more column, key or index."""
    if part.startswith("PRIMARY KEY"):
        return replace(table, key=_names(part.removeprefix("PRIMARY KEY")))
    if index := re.fullmatch(r"(?:KEY|INDEX) (\w+) \((.*)\)", part):
        return replace(table, indexes=(*table.indexes, Index(index[1], _names(index[2]))))
    column = _COLUMN.fullmatch(part)
    assert column is not None, part
    rest = column["rest"]
    default = _DEFAULT.search(rest)
    is_key = "PRIMARY KEY" in rest
    made = Column(
        column["name"],
        column["type"],
        nullable="NOT NULL" not in rest,
        default=default[1] if default else None,
        numbered=re.search("IDENTITY|AUTO_?INCREMENT", rest) is not None,
        charset=column["charset"],
        collation=column["collation"],
    )
    return replace(table, columns=(*table.columns, made), key=(column["name"],) if is_key else table.key)


def _altered(table: Table, change: str) -> Table:
    if change.startswith("ADD COLUMN "):
        return _with(table, change.removeprefix("ADD COLUMN "))
    if change.startswith("ADD PRIMARY KEY"):
        return _with(table, change.removeprefix("ADD "))
    if change.startswith("SET ("):
        return replace(table, storage={**table.storage, **_storage(change)})
    if change == f"DROP CONSTRAINT {table.name}_pkey":
        return replace(table, key=())
    raise AssertionError(f"not understood: ALTER TABLE {table.name} {change}")


def _storage(text: str) -> dict[str, str]:
    found = _STORAGE.search(text)
    if found is None:
        return {}
    pairs = (each.partition("=") for each in found[1].split(","))
    return {name.strip(): value.strip() for name, _, value in pairs}


def _names(text: str) -> tuple[str, ...]:
    return tuple(name.strip("`") for name in _LIST.findall(text))


def _parts(body: str) -> list[str]:
    """What stands between the commas that are in no brackets."""
    parts, depth = [""], 0
    for sign in body:
        depth += {"(": 1, ")": -1}.get(sign, 0)
        if sign == "," and not depth:
            parts.append("")
        else:
            parts[-1] += sign
    return [" ".join(part.split()) for part in parts]
