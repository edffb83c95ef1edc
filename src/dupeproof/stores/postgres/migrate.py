# Written by tools/twins.py from src/dupeproof/stores/postgres/migrate_async.py; change that file instead.
"""Bringing the schema up to date, on any connection: the store's own, or the caller's."""

from collections.abc import Callable

from dupeproof.sql import CallerConnection
from dupeproof.sql.statements import split
from dupeproof.stores.postgres import migrations


def migrate(adapted: CallerConnection, begin: Callable[[], None] = lambda: None) -> list[int]:
    """The versions that were applied now, in one transaction; inside that of the caller where there is one.

    `begin` is called before each step that may take its time.
    """
    with adapted.transaction():
        for step in (migrations.LOCK, migrations.CREATE_LEDGER):
            begin()
            adapted.execute(step)
        applied = {version for (version,) in adapted.execute(migrations.APPLIED)}
        missing = [each for each in migrations.migrations() if each.version not in applied]
        for migration in missing:
            for statement in split(migration.text):
                begin()
                adapted.execute(statement)
            adapted.execute(migrations.RECORD, {"version": migration.version, "name": migration.name})
        return [migration.version for migration in missing]
