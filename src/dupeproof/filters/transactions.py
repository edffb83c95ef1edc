"""Connections of the caller's: which kind they are, and whether a transaction is open on them."""

import sqlite3
import sys
from typing import Any, NoReturn

from dupeproof.errors import ConfigError

_OPEN_ONE = (
    "there is no transaction on this connection, so the number would be kept even if your work fails; "
)


def is_psycopg(connection: object, kind: str) -> bool:
    """Whether it is psycopg's Connection or AsyncConnection. If nobody has imported psycopg, it is not."""
    psycopg = sys.modules.get("psycopg")
    return psycopg is not None and isinstance(connection, getattr(psycopg, kind))


def check_psycopg(connection: Any) -> None:
    """Without autocommit psycopg opens a transaction by itself."""
    if connection.autocommit and connection.info.transaction_status.name == "IDLE":
        raise ConfigError(_OPEN_ONE + "write: with connection.transaction(): …")


def check_sqlite(connection: sqlite3.Connection) -> None:
    """With an isolation level sqlite3 opens a transaction by itself."""
    by_itself = connection.isolation_level is not None and getattr(connection, "autocommit", -1) == -1
    if not connection.in_transaction and not by_itself:
        raise ConfigError(_OPEN_ONE + 'call connection.execute("BEGIN IMMEDIATE") first')


def refuse(connection: object, usable: str) -> NoReturn:
    raise ConfigError(f"this guard joins the transaction of {usable}, not of {type(connection).__qualname__}")


def schema_missing(how: str) -> ConfigError:
    return ConfigError(f"the table dupeproof_sequences is not there yet; {how}")
