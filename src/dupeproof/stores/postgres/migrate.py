# Written by tools/twins.py from src/dupeproof/stores/postgres/migrate_async.py; change that file instead.
"""Bringing the schema up to date, on any connection: the store's own, or the caller's."""

from collections.abc import Callable, Collection

from dupeproof.sql import CallerConnection
from dupeproof.stores.postgres import migrations


def migrate(
    adapted: CallerConnection,
    begin: Callable[[], None] = lambda: None,
    *,
    to: int | None = None,
    wanted: Collection[str] | None = None,
) -> list[int]:
    """The versions that were applied now, in one transaction; inside that of the caller where there is one.

    `begin` is called before each step that may take its time. `to` is the last version, `wanted` the names of tables.
    """
    with adapted.transaction():
        for step in (migrations.LOCK, migrations.CREATE_LEDGER):
            begin()
            adapted.execute(step)
        applied = {version for (version,) in adapted.execute(migrations.APPLIED)}
        columns: dict[str, set[str]] = {}
        for table, column in adapted.execute(migrations.COLUMNS):
            columns.setdefault(table, set()).add(column)
        done = []
        for missing in migrations.steps(applied, columns, to=to, wanted=wanted):
            for statement in missing.statements:
                begin()
                adapted.execute(statement)
            if missing.complete:
                migration = missing.migration
                adapted.execute(migrations.RECORD, {"version": migration.version, "name": migration.name})
                done.append(migration.version)
        return done
