"""Numbers decided inside the caller's own transaction."""

from collections.abc import Awaitable, Callable, Sequence
from typing import Any

from dupeproof.core.sequences import Number, Verdict
from dupeproof.errors import ConfigError
from dupeproof.sql import AsyncCallerConnection, Translated, adapt_async
from dupeproof.sql.faults import table_missing
from dupeproof.sql.statements import split
from dupeproof.stores.postgres import sequences_async as postgres
from dupeproof.stores.postgres.migrate_async import migrate
from dupeproof.stores.sqlite import sequences_async as sqlite
from dupeproof.stores.sqlite.connection import SEQUENCES

_TRANSLATED = Translated(table_missing("dupeproof_sequences", "guard"))
Verdicts = list[Verdict]
_ADVANCE: dict[str, Callable[[AsyncCallerConnection, Sequence[Number]], Awaitable[Verdicts]]] = {
    "postgresql": postgres.advance,
    "sqlite": sqlite.advance,
}


async def advance_on(connection: Any, numbers: Sequence[Number]) -> list[Verdict]:
    with _TRANSLATED:
        adapted = await _joined(connection)
        adapted.check_transaction()
        return await _ADVANCE[adapted.dialect](adapted, numbers)


async def create_schema_on(connection: Any) -> None:
    with _TRANSLATED:
        adapted = await _joined(connection)
        if adapted.dialect == "postgresql":
            await migrate(adapted)
            return
        for statement in split(SEQUENCES):
            await adapted.execute(statement)


async def _joined(connection: Any) -> AsyncCallerConnection:
    adapted = await adapt_async(connection)
    if adapted.dialect not in _ADVANCE:
        raise ConfigError("numbers are kept in PostgreSQL or SQLite, not in MariaDB or MySQL")
    return adapted
