"""Our schema made, brought up to date and removed on a connection of SQLAlchemy."""

from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from typing import Any

from dupeproof.errors import ConfigError
from dupeproof.sql import CallerConnection, adapt
from dupeproof.sql.statements import Dialect
from dupeproof.stores import installation, tables


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
        installation.drop(adapted, groups)


def drop_functions(connection: Any, schema: str | None = None, *, groups: Sequence[str] = ()) -> None:
    with _in_schema(connection, schema) as adapted:
        installation.drop_functions(adapted, groups)


def applied(connection: Any, schema: str | None = None) -> set[int]:
    return installation.applied(adapt(connection), schema)


@contextmanager
def _in_schema(connection: Any, schema: str | None) -> Iterator[CallerConnection]:
    adapted = adapt(connection)
    with adapted.transaction(), installation.in_schema(adapted, schema):
        yield adapted
