# No twin: only those ask for it who have a sync connection, as Alembic, Django and the command have.
"""Our schema as somebody's migrations keep it: where it is, how far it is, and taken away again."""

import re
from collections.abc import Iterator, Sequence
from contextlib import contextmanager

from dupeproof.errors import ConfigError
from dupeproof.sql import CallerConnection
from dupeproof.sql.statements import split
from dupeproof.stores.definitions import LEDGER, names_in
from dupeproof.stores.definitions import tables as defined
from dupeproof.stores.postgres.migrations import is_about, migrations

_FUNCTION = re.compile(r"CREATE FUNCTION (\w+)")
_SIGNATURES = """
    SELECT p.proname || '(' || pg_get_function_identity_arguments(p.oid) || ')'
    FROM pg_proc AS p JOIN pg_namespace AS n ON n.oid = p.pronamespace
    WHERE n.nspname = current_schema() AND CAST(p.proname AS text) = ANY (string_to_array(CAST(:names AS text), ','))
    ORDER BY 1
"""


def drop(adapted: CallerConnection, groups: Sequence[str] = ()) -> None:
    """The tables of these groups with all that is in them, or everything of ours."""
    names = names_in(tuple(groups))
    drop_functions(adapted, groups)
    for name in reversed(defined(adapted.dialect)):
        if name in names and (name != LEDGER or not groups):
            adapted.execute(f"DROP TABLE IF EXISTS {name}")
    if adapted.dialect == "postgresql" and groups:
        gone = ", ".join(str(each.version) for each in migrations() if is_about(each.text, names))
        adapted.execute(f"DELETE FROM {LEDGER} WHERE version IN ({gone})")  # noqa: S608 - numbers


def drop_functions(adapted: CallerConnection, groups: Sequence[str] = ()) -> None:
    """Some are of the type of a table, which cannot go before them. With them goes what calls them: the triggers."""
    if adapted.dialect == "postgresql":
        for signature in functions(adapted, groups):
            adapted.execute(f"DROP FUNCTION {signature} CASCADE")


def functions(adapted: CallerConnection, groups: Sequence[str] = ()) -> list[str]:
    """Those of PostgreSQL that are there, about the tables of these groups, or all; with their arguments."""
    statements = [one for each in migrations() for one in split(each.text)]
    if groups:
        names = names_in(tuple(groups))
        statements = [one for one in statements if is_about(one, names)]
    made = {found[1] for one in statements if (found := _FUNCTION.match(one)) is not None}
    return [name for (name,) in adapted.execute(_SIGNATURES, {"names": ",".join(sorted(made))})]


def applied(adapted: CallerConnection, schema: str | None = None) -> set[int]:
    """Which of PostgreSQL's migrations were applied."""
    ledger = LEDGER if schema is None else f"{_quoted(schema)}.{LEDGER}"
    [(there,)] = adapted.execute("SELECT to_regclass(CAST(:ledger AS text)) IS NOT NULL", {"ledger": ledger})
    found = adapted.execute(f"SELECT version FROM {ledger}") if there else []  # noqa: S608 - a name
    return {version for (version,) in found}


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
    adapted.execute(set_path, {"path": _quoted(schema)})
    yield
    # Not after an error: the transaction is lost then, and what was set in it.
    adapted.execute(set_path, {"path": before})


def _quoted(schema: str) -> str:
    return '"' + schema.replace('"', '""') + '"'
