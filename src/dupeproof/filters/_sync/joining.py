# No twin: sqlite3 connections are sync only.
"""Numbers decided inside the caller's own transaction."""

import sqlite3
from collections.abc import Sequence
from typing import Any

from dupeproof.core.sequences import Number, Verdict
from dupeproof.filters.transactions import check_psycopg, check_sqlite, is_psycopg, refuse, schema_missing
from dupeproof.stores.sqlite import sequences
from dupeproof.stores.sqlite.connection import SEQUENCES

_USABLE = "a psycopg.Connection or a sqlite3.Connection"


def advance_on(connection: Any, numbers: Sequence[Number]) -> list[Verdict]:
    if isinstance(connection, sqlite3.Connection):
        check_sqlite(connection)
        try:
            return sequences.advance(connection, numbers)
        except sqlite3.OperationalError as exc:
            if "no such table" not in str(exc):
                raise
            raise schema_missing("call guard.create_schema(connection) once") from exc
    if not is_psycopg(connection, "Connection"):
        refuse(connection, _USABLE)
    from dupeproof.stores.postgres._sync.sequences import advance  # noqa: PLC0415 - psycopg is an extra
    from dupeproof.stores.postgres.faults import SCHEMA_MISSING  # noqa: PLC0415

    check_psycopg(connection)
    try:
        return advance(connection, numbers)
    except SCHEMA_MISSING as exc:
        raise schema_missing("call guard.create_schema(connection) once") from exc


def create_schema_on(connection: Any) -> None:
    if isinstance(connection, sqlite3.Connection):
        connection.execute(SEQUENCES)
        return
    if not is_psycopg(connection, "Connection"):
        refuse(connection, _USABLE)
    from dupeproof.stores.postgres._sync.migrating import migrate  # noqa: PLC0415 - psycopg is an extra

    migrate(connection)
