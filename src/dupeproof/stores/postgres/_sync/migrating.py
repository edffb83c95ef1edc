# Written by tools/twins.py from src/dupeproof/stores/postgres/_async/migrating.py; change that file instead.
"""Bringing the schema up to date, on any connection: the store's own, or the caller's."""

from collections.abc import Callable
from typing import Any

from psycopg import Connection
from psycopg.rows import tuple_row

from dupeproof.stores.postgres import migrations


def migrate(connection: Connection[Any], begin: Callable[[], None] = lambda: None) -> list[int]:
    """The versions that were applied now, in one transaction; inside that of the caller where there is one.

    `begin` is called before each step that may take its time.
    """
    with connection.transaction(), connection.cursor(row_factory=tuple_row) as cursor:
        for step in (migrations.LOCK, migrations.CREATE_LEDGER):
            begin()
            cursor.execute(step)
        cursor.execute(migrations.APPLIED)
        applied = {version for (version,) in cursor.fetchall()}
        missing = [each for each in migrations.migrations() if each.version not in applied]
        for migration in missing:
            begin()
            cursor.execute(migration.text)
            cursor.execute(migrations.RECORD, [migration.version, migration.name])
        return [migration.version for migration in missing]
