# Written by tools/twins.py from src/dupeproof/sql/sqlalchemy_async.py; change that file instead.
"""SQLAlchemy's connection, and the one behind its session; any driver below it."""

from typing import Any

from dupeproof.errors import ConfigError
from dupeproof.sql.autocommit import commits_alone
from dupeproof.sql.kinds import supported_dialect
from dupeproof.sql.protocols import CLOSED, CallerConnection


class Sqlalchemy(CallerConnection):
    def __init__(self, connection: Any) -> None:
        self._connection = connection
        dialect = connection.dialect
        self.dialect = supported_dialect("mysql" if dialect.name == "mariadb" else dialect.name)
        self.style = dialect.paramstyle

    @property
    def in_transaction(self) -> bool:
        """SQLAlchemy opens one by itself, unless its isolation level is AUTOCOMMIT."""
        level = self._plain.get_execution_options().get("isolation_level")
        if level is None:  # then the engine's own
            level = getattr(self._connection.dialect, "_on_connect_isolation_level", None)
        return bool(level != "AUTOCOMMIT") and not commits_alone(self.driver_connection)

    @property
    def driver_connection(self) -> Any:
        return self._plain.connection.driver_connection

    @property
    def _plain(self) -> Any:
        return getattr(self._connection, "sync_connection", self._connection)

    @property
    def how_to_begin(self) -> str:
        return "it is set up for AUTOCOMMIT: use an engine or connection without, and engine.begin()"

    def run(self, text: str, parameters: Any) -> list[tuple[Any, ...]]:
        result = self._connection.exec_driver_sql(text, parameters or None)
        return [tuple(row) for row in result] if result.returns_rows else []

    def run_counting(self, text: str, parameters: Any) -> int:
        result = self._connection.exec_driver_sql(text, parameters or None)
        return int(result.rowcount)


def adapt_session(session: Any) -> Sqlalchemy:
    try:
        connection = session.connection()
    except Exception as exc:
        if type(exc).__name__ == "InvalidRequestError":
            raise ConfigError(f"this session has no transaction: {exc}") from exc
        raise
    adapted = adapt_connection(connection)
    adapted.undoes = False
    return adapted


def adapt_connection(connection: Any) -> Sqlalchemy:
    if connection.closed:
        raise ConfigError(CLOSED)
    adapted = Sqlalchemy(connection)
    if not connection.in_transaction():
        adapted.run("SELECT 1", None)  # it begins with its first statement, and may have a hook for that
    return adapted
