# No twin: the kinds of connection differ.
"""From a connection to the adapter of its kind."""

from collections.abc import Callable
from typing import Any

from dupeproof.sql.django import Django
from dupeproof.sql.kinds import kind_of
from dupeproof.sql.protocols import CallerConnection
from dupeproof.sql.psycopg import adapt_psycopg
from dupeproof.sql.pymysql import Pymysql
from dupeproof.sql.sqlalchemy import adapt_connection, adapt_session
from dupeproof.sql.sqlite import Sqlite

_ADAPTERS: dict[str, Callable[[Any], CallerConnection]] = {
    "sqlite3.Connection": Sqlite,
    "psycopg.Connection": adapt_psycopg,
    "pymysql.connections.Connection": Pymysql,
    "sqlalchemy.engine.base.Connection": adapt_connection,
    "sqlalchemy.orm.session.Session": adapt_session,
    "sqlalchemy.orm.scoping.scoped_session": adapt_session,
    "django.db.backends.base.base.BaseDatabaseWrapper": Django,
    "django.utils.connection.ConnectionProxy": Django,
}


def adapt(connection: object) -> CallerConnection:
    kind = kind_of(type(connection), is_async=False)  # type: ignore[arg-type] # classes are hashable
    return _ADAPTERS[kind](connection)
