"""What a revision of Alembic calls: our schema made, brought up to date and removed."""

from collections.abc import Collection, Sequence
from typing import Any

from sqlalchemy import DDL

from dupeproof.errors import ConfigError
from dupeproof.sql.kinds import supported_dialect
from dupeproof.sqlalchemy import schema as schemas
from dupeproof.stores.definitions import names_in, statements_of
from dupeproof.stores.postgres import migrations


def latest() -> int:
    return migrations.migrations()[-1].version


def is_due(applied: Collection[int], groups: Sequence[str]) -> bool:
    """Whether there is a migration about these tables that was not applied."""
    if not groups:
        return any(each.version not in applied for each in migrations.migrations())
    wanted = names_in(tuple(groups))
    return any(step.complete for step in migrations.steps(applied, {}, wanted=wanted))


def upgrade(op: Any, *, to: int | None = None, schema: str | None = None, groups: Sequence[str] = ()) -> None:
    """Make our tables, functions and triggers, or bring them up to date; what is there stays. `op` is Alembic's.

    `to` is the version of our schema on PostgreSQL, the newest where it is left out. `schema` is where the tables are,
    and `groups` are those of `dupeproof.sqlalchemy.tables`.
    """
    if to is not None and not 0 <= to <= latest():
        raise ConfigError(
            f"this dupeproof knows its schema up to version {latest()}, not {to}; "
            "install the one this revision was written with"
        )
    context = op.get_context()
    if context.as_sql:
        _print(op, context, to, schema, groups)
    else:
        schemas.create(op.get_bind(), schema, groups=groups, to=to)


def downgrade(op: Any, *, to: int = 0, schema: str | None = None, groups: Sequence[str] = ()) -> None:
    """Remove what `upgrade` made, with all that is in it.

    With a `to` other than 0 nothing changes: an older dupeproof works with a newer schema.
    """
    if to:
        return
    if op.get_context().as_sql:
        raise ConfigError("a downgrade must see what is there; run it on the database, without --sql")
    schemas.drop(op.get_bind(), schema, groups=groups)


def _print(op: Any, context: Any, to: int | None, schema: str | None, groups: Sequence[str]) -> None:
    """Without a database to look at: all of it, for one that has nothing of ours."""
    name = context.dialect.name
    dialect = supported_dialect("mysql" if name == "mariadb" else name)
    wanted = names_in(tuple(groups))
    if dialect != "postgresql":
        for statement in statements_of(dialect, wanted):
            op.execute(_ddl(statement))
        return
    if schema is not None:
        op.execute(_ddl("SET LOCAL search_path TO " + '"' + schema.replace('"', '""') + '"'))
    op.execute(_ddl(migrations.CREATE_LEDGER))
    for step in migrations.steps((), {}, to=to, wanted=wanted if groups else None):
        for statement in step.statements:
            op.execute(_ddl(statement))
        if step.complete:
            op.execute(_ddl(step.migration.record))
    if schema is not None:
        op.execute(_ddl("SET LOCAL search_path TO DEFAULT"))


def _ddl(statement: str) -> DDL:
    return DDL(statement.replace("%", "%%"))  # type: ignore[no-untyped-call]


__all__ = ["downgrade", "is_due", "latest", "upgrade"]
