# No twin: the kinds of connection differ.
"""From a connection to the adapter of its kind."""

from collections.abc import Callable
from typing import Any

from dupeproof.sql._sync.django import Django
from dupeproof.sql._sync.protocols import Joined
from dupeproof.sql._sync.psycopg import Psycopg
from dupeproof.sql._sync.pymysql import Pymysql
from dupeproof.sql._sync.sqlalchemy import join_connection, join_session
from dupeproof.sql._sync.sqlite import Sqlite
from dupeproof.sql.kinds import kind_of

_ADAPTERS: dict[str, Callable[[Any], Joined]] = {
    "sqlite3.Connection": Sqlite,
    "psycopg.Connection": Psycopg,
    "pymysql.connections.Connection": Pymysql,
    "sqlalchemy.engine.base.Connection": join_connection,
    "sqlalchemy.orm.session.Session": join_session,
    "sqlalchemy.orm.scoping.scoped_session": join_session,
    "django.db.backends.base.base.BaseDatabaseWrapper": Django,
    "django.utils.connection.ConnectionProxy": Django,
}


def join(connection: object) -> Joined:
    kind = kind_of(type(connection), is_async=False)  # type: ignore[arg-type] # classes are hashable
    return _ADAPTERS[kind](connection)
