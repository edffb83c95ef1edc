"""The operation of our migrations: our own SQL, up to a version."""

from typing import Any

from django.db import router
from django.db.migrations.operations.base import Operation

from dupeproof.sql import adapt
from dupeproof.sql.kinds import supported_dialect
from dupeproof.stores import installation
from dupeproof.stores.definitions import names_in, statements_of
from dupeproof.stores.postgres import migrations
from dupeproof.stores.tables import create_groups


class Schema(Operation):  # type: ignore[misc] # Django has no types
    """Brings our tables and functions up to a version of PostgreSQL's migrations, whoever has made what is there.

    Back to 0 removes them with all that is in them. Back to another version changes nothing: an older dupeproof works
    with a newer schema.
    """

    def __init__(self, to: int, back_to: int = 0) -> None:
        self.to, self.back_to = to, back_to

    def state_forwards(self, app_label: str, state: Any) -> None:
        """The models are there by operations of their own."""

    def database_forwards(self, app_label: str, schema_editor: Any, _: Any, __: Any) -> None:
        connection = schema_editor.connection
        if not router.allow_migrate(connection.alias, app_label):
            return
        if schema_editor.collect_sql:
            schema_editor.collected_sql.extend(f"{each};" for each in _printed(connection.vendor, self.to))
        else:
            create_groups(adapt(connection), to=self.to)

    def database_backwards(self, app_label: str, schema_editor: Any, _: Any, __: Any) -> None:
        connection = schema_editor.connection
        if self.back_to or not router.allow_migrate(connection.alias, app_label):
            return
        if schema_editor.collect_sql:
            schema_editor.collected_sql.append(
                "-- removes every table and function of dupeproof that is there"
            )
        else:
            installation.drop(adapt(connection))

    def describe(self) -> str:
        return f"Bring the tables of dupeproof up to version {self.to}"

    @property
    def migration_name_fragment(self) -> str:
        return f"schema_{self.to}"


def _printed(vendor: str, to: int) -> list[str]:
    """For a database that has nothing of ours."""
    dialect = supported_dialect(vendor)
    if dialect != "postgresql":
        return statements_of(dialect, names_in(()))
    steps = list(migrations.steps((), {}, to=to))
    recorded = [one.migration.record for one in steps]
    return [migrations.CREATE_LEDGER, *(text for one in steps for text in one.statements), *recorded]
