"""Our schema made, brought up to date and removed on a connection of SQLAlchemy."""

from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from typing import Any

from dupeproof.errors import ConfigError
from dupeproof.sql import CallerConnection, adapt
from dupeproof.sql.statements import Dialect
from dupeproof.stores import removal, tables
from dupeproof.stores.definitions import LEDGER


def dialect_of(connection: Any) -> Dialect:
    return adapt(connection).dialect


def check_dialect(connection: Any, dialect: Dialect) -> None:
    found = dialect_of(connection)
    if found != dialect:
        raise ConfigError(
            f"these are our tables for {dialect}, and this is {found}; "
            f"write dupeproof.sqlalchemy.tables(metadata, dialect={found!r})"
        )


def create(
    connection: Any, schema: str | None = None, *, groups: Sequence[str] = (), to: int | None = None
) -> list[int]:
    """What is missing, whoever has made the rest. The versions of PostgreSQL's migrations that were applied now."""
    with _in_schema(connection, schema) as adapted:
        return tables.create_groups(adapted, groups, to=to)


def drop(connection: Any, schema: str | None = None, *, groups: Sequence[str] = ()) -> None:
    with _in_schema(connection, schema) as adapted:
        removal.drop(adapted, groups)


def drop_functions(connection: Any, schema: str | None = None, *, groups: Sequence[str] = ()) -> None:
    with _in_schema(connection, schema) as adapted:
        removal.drop_functions(adapted, groups)


def applied(connection: Any, schema: str | None = None) -> set[int] | None:
    """Which of PostgreSQL's migrations were applied; None on other databases."""
    adapted = adapt(connection)
    if adapted.dialect != "postgresql":
        return None
    ledger = LEDGER if schema is None else '"' + schema.replace('"', '""') + f'".{LEDGER}'
    [(there,)] = adapted.execute("SELECT to_regclass(CAST(:ledger AS text)) IS NOT NULL", {"ledger": ledger})
    return {version for (version,) in adapted.execute(f"SELECT version FROM {ledger}")} if there else set()  # noqa: S608


@contextmanager
def in_schema(adapted: CallerConnection, schema: str | None) -> Iterator[None]:
    """Our statements name no schema. They find their tables by the search path, which is as before afterwards."""
    if schema is None or adapted.dialect != "postgresql":
        yield
        return
    [(before,)] = adapted.execute("SELECT current_setting('search_path')")
    [(there,)] = adapted.execute(
        "SELECT count(*) FROM pg_namespace WHERE nspname = CAST(:schema AS text)", {"schema": schema}
    )
    if not there:
        raise ConfigError(f"there is no schema {schema!r}; CREATE SCHEMA it first")
    set_path = "SELECT set_config('search_path', CAST(:path AS text), true)"
    adapted.execute(set_path, {"path": '"' + schema.replace('"', '""') + '"'})
    yield
    # Not after an error: the transaction is lost then, and what was set in it.
    adapted.execute(set_path, {"path": before})


@contextmanager
def _in_schema(connection: Any, schema: str | None) -> Iterator[CallerConnection]:
    adapted = adapt(connection)
    with adapted.transaction(), in_schema(adapted, schema):
        yield adapted
