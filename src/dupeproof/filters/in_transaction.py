# Written by tools/twins.py from src/dupeproof/filters/in_transaction_async.py; change that file instead.
"""Numbers decided inside the caller's own transaction."""

from collections.abc import Callable, Sequence
from typing import Any

from dupeproof.core.sequences import Number, Verdict
from dupeproof.errors import ConfigError
from dupeproof.sql import Joined, Translated, join
from dupeproof.sql.faults import table_missing
from dupeproof.sql.statements import split
from dupeproof.stores.postgres import sequences as postgres
from dupeproof.stores.postgres.migrate import migrate
from dupeproof.stores.sqlite import sequences as sqlite
from dupeproof.stores.sqlite.connection import SEQUENCES

_TRANSLATED = Translated(table_missing("dupeproof_sequences", "guard"))
Verdicts = list[Verdict]
_ADVANCE: dict[str, Callable[[Joined, Sequence[Number]], Verdicts]] = {
    "postgresql": postgres.advance,
    "sqlite": sqlite.advance,
}


def advance_on(connection: Any, numbers: Sequence[Number]) -> list[Verdict]:
    with _TRANSLATED:
        joined = _joined(connection)
        joined.check_transaction()
        return _ADVANCE[joined.dialect](joined, numbers)


def create_schema_on(connection: Any) -> None:
    with _TRANSLATED:
        joined = _joined(connection)
        if joined.dialect == "postgresql":
            migrate(joined)
            return
        for statement in split(SEQUENCES):
            joined.execute(statement)


def _joined(connection: Any) -> Joined:
    joined = join(connection)
    if joined.dialect not in _ADVANCE:
        raise ConfigError("numbers are kept in PostgreSQL or SQLite, not in MariaDB or MySQL")
    return joined
