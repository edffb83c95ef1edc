"""Our tables in the user's MetaData, as our own SQL files make them."""

import re
import sys
from collections.abc import Iterable
from importlib import import_module
from typing import Any

import sqlalchemy
from msgspec import Struct
from sqlalchemy import event
from sqlalchemy.dialects import mysql, postgresql, sqlite
from sqlalchemy.dialects.postgresql.base import ischema_names
from sqlalchemy.sql.elements import conv
from sqlalchemy.types import TypeEngine, UserDefinedType

from dupeproof.errors import ConfigError
from dupeproof.sql.kinds import supported_dialect
from dupeproof.sql.statements import Dialect
from dupeproof.sqlalchemy import schema as schemas
from dupeproof.stores import definitions

_HERE = "dupeproof"
"""Where the user's metadata says what of ours is in it."""
_SIZED = re.compile(r"(\w+)\(([\d, ]+)\)")


class XID8(UserDefinedType[Any]):
    """The number of a transaction, as PostgreSQL has it."""

    cache_ok = True

    def get_col_spec(self, **_: Any) -> str:
        return "xid8"


ischema_names.setdefault("xid8", XID8)  # or SQLAlchemy warns of it whenever it reads our tables

_POSTGRESQL: dict[str, TypeEngine[Any]] = {
    "uuid": postgresql.UUID(),
    "timestamptz": postgresql.TIMESTAMP(timezone=True),
    "text": postgresql.TEXT(),
    "bytea": postgresql.BYTEA(),
    "boolean": postgresql.BOOLEAN(),
    "smallint": postgresql.SMALLINT(),
    "int": postgresql.INTEGER(),
    "integer": postgresql.INTEGER(),
    "bigint": postgresql.BIGINT(),
    "xid8": XID8(),
}


class Ours(Struct, frozen=True):
    """What of ours is in a metadata."""

    dialect: Dialect
    schema: str | None
    groups: tuple[str, ...]


def tables(
    metadata: sqlalchemy.MetaData,
    schema: str | None = None,
    *,
    groups: Iterable[str] = (),
    dialect: str = "postgresql",
) -> list[sqlalchemy.Table]:
    """Put our tables into `metadata`, with the types, defaults, indexes and constraints of our own migrations.

    `groups` are those wanted, out of records, sequences, inbox and outbox; all where none is named. The tables differ
    between databases: `dialect` is postgresql, sqlite, mysql or mariadb.
    """
    if not isinstance(metadata, sqlalchemy.MetaData):
        raise ConfigError(
            f"tables takes a MetaData, such as Base.metadata; not a {type(metadata).__qualname__}"
        )
    wanted = (groups,) if isinstance(groups, str) else tuple(groups)
    kind = supported_dialect("mysql" if dialect == "mariadb" else dialect)
    if kind == "sqlite" and schema is not None:
        raise ConfigError("SQLite has no schemas: leave out schema=")
    ours = Ours(kind, schema, wanted)
    found = definitions.chosen(kind, wanted)
    if not found:
        raise ConfigError(f"{dialect} has no tables for {', '.join(wanted)}")
    there: list[Ours] = metadata.info.setdefault(_HERE, [])
    if others := [each for each in there if each.dialect != kind]:
        raise ConfigError(
            f"this metadata has our tables for {others[0].dialect} already; use another MetaData for {kind}"
        )
    made = [_table(each, metadata, ours) for each in found]
    if ours not in there:
        there.append(ours)
        _complete(metadata, ours, {table.key for table in made})
    if "alembic" in sys.modules:
        import_module("dupeproof.sqlalchemy.autogenerate")
    return made


def ours_in(metadata: sqlalchemy.MetaData) -> list[Ours]:
    return list(metadata.info.get(_HERE, ()))


def _table(defined: definitions.Table, metadata: sqlalchemy.MetaData, ours: Ours) -> sqlalchemy.Table:
    name = defined.name if ours.schema is None else f"{ours.schema}.{defined.name}"
    if (found := metadata.tables.get(name)) is not None:
        return found
    # Names are as they are, whatever conventions the metadata has for others.
    parts: list[Any] = [_column(column, defined, ours.dialect) for column in defined.columns]
    if defined.key:
        key = conv(f"{defined.name}_pkey") if ours.dialect == "postgresql" else None
        parts.append(sqlalchemy.PrimaryKeyConstraint(*defined.key, name=key))
    for index in defined.indexes:
        where = None if index.where is None else sqlalchemy.text(index.where)
        parts.append(
            sqlalchemy.Index(
                conv(index.name),
                *index.columns,
                unique=index.unique,
                postgresql_where=where,
                sqlite_where=where,
            )
        )
    return sqlalchemy.Table(
        defined.name,
        metadata,
        *parts,
        schema=ours.schema,
        sqlite_with_rowid=defined.rowid,
        sqlite_autoincrement=any(column.numbered for column in defined.columns),
        mysql_engine="InnoDB",
        mariadb_engine="InnoDB",
    )


def _column(column: definitions.Column, table: definitions.Table, dialect: Dialect) -> sqlalchemy.Column[Any]:
    parts = [sqlalchemy.Identity(always=False)] if column.numbered and dialect == "postgresql" else []
    return sqlalchemy.Column(
        column.name,
        _type(column, dialect),
        *parts,
        nullable=column.nullable,
        primary_key=column.name in table.key,
        autoincrement=column.numbered,
        server_default=None if column.default is None else sqlalchemy.text(column.default),
    )


def _type(column: definitions.Column, dialect: Dialect) -> TypeEngine[Any]:
    if dialect == "postgresql":
        plain = column.type.removesuffix("[]")
        found = _POSTGRESQL[plain]
        return found if plain == column.type else postgresql.ARRAY(found)
    if dialect == "sqlite":
        made: TypeEngine[Any] = getattr(sqlite, column.type)()
        return made
    sized = _SIZED.fullmatch(column.type)
    name, size = (column.type, []) if sized is None else (sized[1], [int(sized[2])])
    options: dict[str, Any] = {}
    if name == "DATETIME":
        options["fsp"] = size.pop()
    if column.charset is not None:
        options |= {"charset": column.charset, "collation": column.collation}
    kind: Any = mysql.INTEGER if name == "INT" else getattr(mysql, name)
    sized_type: TypeEngine[Any] = kind(*size, **options)
    return sized_type


def _complete(metadata: sqlalchemy.MetaData, ours: Ours, names: set[str]) -> None:
    """What no metadata holds is made after the tables by `create_all`, and removed before them by `drop_all`."""

    def is_about(tables: Any) -> bool:
        return any(table.key in names for table in tables or ())

    def check(_: Any, connection: Any, *, tables: Any = (), **__: Any) -> None:
        if is_about(tables):
            schemas.check_dialect(connection, ours.dialect)

    def complete(_: Any, connection: Any, *, tables: Any = (), **__: Any) -> None:
        if is_about(tables):
            schemas.create(connection, ours.schema, groups=ours.groups)

    def clear(_: Any, connection: Any, *, tables: Any = (), **__: Any) -> None:
        if is_about(tables):
            schemas.drop_functions(connection, ours.schema, groups=ours.groups)

    event.listen(metadata, "before_create", check)
    event.listen(metadata, "after_create", complete)
    event.listen(metadata, "before_drop", clear)
