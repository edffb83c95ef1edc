# Written by tools/twins.py from src/dupeproof/filters/in_transaction_async.py; change that file instead.
"""Numbers decided inside the caller's own transaction."""

from collections.abc import Callable, Sequence
from typing import Any

from dupeproof.core.sequences import Number, Verdict
from dupeproof.errors import ConfigError
from dupeproof.sql import CallerConnection, Translated, adapt
from dupeproof.sql.faults import table_missing
from dupeproof.sql.statements import split
from dupeproof.stores.postgres import sequences as postgres
from dupeproof.stores.postgres.migrate import migrate
from dupeproof.stores.sqlite import sequences as sqlite
from dupeproof.stores.sqlite.connection import SEQUENCES

_TRANSLATED = Translated(table_missing("dupeproof_sequences", "guard"))
Verdicts = list[Verdict]
_ADVANCE: dict[str, Callable[[CallerConnection, Sequence[Number]], Verdicts]] = {
    "postgresql": postgres.advance,
    "sqlite": sqlite.advance,
}


def advance_on(connection: Any, numbers: Sequence[Number]) -> list[Verdict]:
    with _TRANSLATED:
        adapted = _joined(connection)
        adapted.check_transaction()
        return _ADVANCE[adapted.dialect](adapted, numbers)


def create_schema_on(connection: Any) -> None:
    with _TRANSLATED:
        adapted = _joined(connection)
        if adapted.dialect == "postgresql":
            migrate(adapted)
            return
        for statement in split(SEQUENCES):
            adapted.execute(statement)


def _joined(connection: Any) -> CallerConnection:
    adapted = adapt(connection)
    if adapted.dialect not in _ADVANCE:
        raise ConfigError("numbers are kept in PostgreSQL or SQLite, not in MariaDB or MySQL")
    return adapted
