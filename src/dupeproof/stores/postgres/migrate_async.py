"""Bringing the schema up to date, on any connection: the store's own, or the caller's."""

from collections.abc import Callable, Collection

from dupeproof.sql import AsyncCallerConnection
from dupeproof.stores.postgres import migrations


async def migrate(
    adapted: AsyncCallerConnection,
    begin: Callable[[], None] = lambda: None,
    *,
    to: int | None = None,
    wanted: Collection[str] | None = None,
) -> list[int]:
    """The versions that were applied now, in one transaction; inside that of the caller where there is one.

    `begin` is called before each step that may take its time. `to` is the last version, `wanted` the names of tables.
    """
    async with adapted.transaction():
        for step in (migrations.LOCK, migrations.CREATE_LEDGER):
            begin()
            await adapted.execute(step)
        applied = {version for (version,) in await adapted.execute(migrations.APPLIED)}
        columns: dict[str, set[str]] = {}
        for table, column in await adapted.execute(migrations.COLUMNS):
            columns.setdefault(table, set()).add(column)
        done = []
        for missing in migrations.steps(applied, columns, to=to, wanted=wanted):
            for statement in missing.statements:
                begin()
                await adapted.execute(statement)
            if missing.complete:
                migration = missing.migration
                await adapted.execute(
                    migrations.RECORD, {"version": migration.version, "name": migration.name}
                )
                done.append(migration.version)
        return done
