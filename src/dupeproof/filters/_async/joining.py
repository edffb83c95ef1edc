# No twin: sqlite3 connections are sync only.
"""Numbers decided inside the caller's own transaction."""

from collections.abc import Sequence
from typing import Any

from dupeproof.core.sequences import Number, Verdict
from dupeproof.filters.transactions import check_psycopg, is_psycopg, refuse, schema_missing

_USABLE = "a psycopg.AsyncConnection"


async def advance_on(connection: Any, numbers: Sequence[Number]) -> list[Verdict]:
    if not is_psycopg(connection, "AsyncConnection"):
        refuse(connection, _USABLE)
    from dupeproof.stores.postgres._async.sequences import advance  # noqa: PLC0415 - psycopg is an extra
    from dupeproof.stores.postgres.faults import SCHEMA_MISSING  # noqa: PLC0415

    check_psycopg(connection)
    try:
        return await advance(connection, numbers)
    except SCHEMA_MISSING as exc:
        raise schema_missing("call `await guard.create_schema(connection)` once") from exc


async def create_schema_on(connection: Any) -> None:
    if not is_psycopg(connection, "AsyncConnection"):
        refuse(connection, _USABLE)
    from dupeproof.stores.postgres._async.migrating import migrate  # noqa: PLC0415 - psycopg is an extra

    await migrate(connection)
