"""The schema as a list of migrations; the sum of them is the schema."""

import re
from collections.abc import Collection, Iterator, Mapping
from functools import cache
from importlib.resources import files

from msgspec import Struct

from dupeproof.sql.statements import split

LOCK = "SELECT pg_advisory_xact_lock(7310587041632154)"
"""Processes that start together make the schema one after the other; a transaction lock works behind a pooler."""
CREATE_LEDGER = (
    "CREATE TABLE IF NOT EXISTS dupeproof_migrations "
    "(version integer PRIMARY KEY, name text NOT NULL, applied_at timestamptz NOT NULL DEFAULT now())"
)
APPLIED = "SELECT version FROM dupeproof_migrations"
RECORD = "INSERT INTO dupeproof_migrations (version, name) VALUES (:version, :name)"


COLUMNS = """
    SELECT CAST(c.relname AS text), CAST(a.attname AS text)
    FROM pg_class AS c JOIN pg_attribute AS a ON a.attrelid = c.oid AND a.attnum > 0 AND NOT a.attisdropped
    WHERE c.relnamespace = (SELECT oid FROM pg_namespace WHERE nspname = current_schema()) AND c.relkind IN ('r', 'p') AND starts_with(CAST(c.relname AS text), 'dupeproof_')
"""
"""What is there of our tables, whoever has made it: the migrations, or SQLAlchemy from our metadata."""

_TABLE = re.compile(
    r"(?:CREATE|ALTER) TABLE (\w+)|CREATE (?:UNIQUE )?INDEX \w+ ON (\w+)|CREATE TRIGGER \w+\s.*?\bON (\w+)",
    re.DOTALL,
)
_ADDED = re.compile(r"\bADD COLUMN (\w+)")
_STORAGE = re.compile(r"\b(?:WITH|SET) (\([\w\s=.,]+\))\s*$")
_TRIGGER = re.compile(r"CREATE TRIGGER (\w+)")
_OURS = re.compile(r"\bdupeproof_\w+")


class Migration(Struct, frozen=True):
    version: int
    name: str
    text: str

    @property
    def tables(self) -> list[str]:
        return re.findall(r"^CREATE TABLE (\w+)", self.text, re.MULTILINE)

    @property
    def record(self) -> str:
        """That it was applied, for those who run it by hand."""
        return f"INSERT INTO dupeproof_migrations (version, name) VALUES ({self.version}, '{self.name}')"  # noqa: S608 - ours


@cache
def migrations() -> tuple[Migration, ...]:
    folder = files(__package__).joinpath("migrations")
    names = sorted(entry.name for entry in folder.iterdir() if entry.name.endswith(".sql"))
    return tuple(Migration(int(name[:4]), name[5:-4], folder.joinpath(name).read_text()) for name in names)


class Step(Struct, frozen=True):
    """What one migration still has to do."""

    migration: Migration
    statements: list[str]
    complete: bool
    """False where tables are left out that nobody wants."""


def steps(
    applied: Collection[int],
    columns: Mapping[str, Collection[str]],
    *,
    to: int | None = None,
    wanted: Collection[str] | None = None,
) -> Iterator[Step]:
    """What is missing up to this version, of all tables or of those wanted.

    A table that is there although no migration has made it came from our metadata: it has its final form. Only what no
    metadata holds is missing then: its storage parameters, triggers and functions.
    """
    made = {name for each in migrations() if each.version in applied for name in each.tables}
    unwanted = (
        set() if wanted is None else {name for each in migrations() for name in each.tables} - {*wanted}
    )
    for each in migrations():
        if each.version in applied or (to is not None and each.version > to):
            continue
        statements = split(each.text)
        chosen = [one for one in statements if not is_about(one, unwanted)]
        found = [text for one in chosen for text in _tolerant(one, made, columns)]
        yield Step(each, found, complete=len(chosen) == len(statements))


def is_about(statement: str, tables: Collection[str]) -> bool:
    """Whether it has to do with one of these tables."""
    return any(name in tables for name in _OURS.findall(statement))


def _tolerant(statement: str, made: set[str], columns: Mapping[str, Collection[str]]) -> list[str]:
    """The same for a database that has some of it."""
    if statement.startswith("CREATE FUNCTION "):
        return [statement.replace("CREATE FUNCTION ", "CREATE OR REPLACE FUNCTION ", 1)]
    about = _TABLE.match(statement)
    table = "" if about is None else str(about[1] or about[2] or about[3])
    if table not in columns or table in made:
        return [statement]
    if statement.startswith("CREATE TABLE "):
        return _storage(table, statement)
    if statement.startswith("ALTER TABLE ") and {*_ADDED.findall(statement)} <= {*columns[table]}:
        return _storage(table, statement)
    if trigger := _TRIGGER.match(statement):
        return [f"DROP TRIGGER IF EXISTS {trigger[1]} ON {table}", statement]
    return [statement.replace(" INDEX ", " INDEX IF NOT EXISTS ", 1)]


def _storage(table: str, statement: str) -> list[str]:
    found = _STORAGE.search(statement)
    return [] if found is None else [f"ALTER TABLE {table} SET {found[1]}"]


def schema() -> str:
    """Everything, as one text a database administrator can run by hand."""
    steps = [f"{each.text}\n{each.record};" for each in migrations()]
    return "\n".join(["BEGIN;", CREATE_LEDGER + ";", *steps, "COMMIT;", ""])
