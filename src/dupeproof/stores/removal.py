# No twin: only those remove our schema who have a sync connection, as Alembic and Django have.
"""Our schema taken away again: for the downgrade of somebody's first revision."""

import re
from collections.abc import Sequence

from dupeproof.sql import CallerConnection
from dupeproof.sql.statements import split
from dupeproof.stores.definitions import LEDGER, names_in
from dupeproof.stores.definitions import tables as defined
from dupeproof.stores.postgres.migrations import is_about, migrations

_FUNCTION = re.compile(r"CREATE FUNCTION (\w+)")
_SIGNATURES = """
    SELECT CAST(CAST(oid AS regprocedure) AS text) FROM pg_proc
    WHERE pronamespace = (SELECT oid FROM pg_namespace WHERE nspname = current_schema())
      AND CAST(proname AS text) = ANY (string_to_array(CAST(:names AS text), ','))
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
    if adapted.dialect != "postgresql":
        return
    statements = [one for each in migrations() for one in split(each.text)]
    if groups:
        names = names_in(tuple(groups))
        statements = [one for one in statements if is_about(one, names)]
    functions = {found[1] for one in statements if (found := _FUNCTION.match(one)) is not None}
    for (signature,) in adapted.execute(_SIGNATURES, {"names": ",".join(sorted(functions))}):
        adapted.execute(f"DROP FUNCTION {signature} CASCADE")
