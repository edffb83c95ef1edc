"""What may be given as `database=`, where a consumer has to open the transaction itself."""

from collections.abc import Callable
from typing import Any

from dupeproof.errors import ConfigError

Opener = Callable[[Any], Any]
"""From an engine, a factory or a pool to a context manager that begins, and commits or rolls back at its end."""
SYNC: dict[str, Opener] = {
    "sqlalchemy.engine.base.Engine": lambda engine: engine.begin(),
    "sqlalchemy.orm.session.sessionmaker": lambda factory: factory.begin(),
    "psycopg_pool.pool.ConnectionPool": lambda pool: pool.connection(),
}
ASYNC: dict[str, Opener] = {
    "sqlalchemy.ext.asyncio.engine.AsyncEngine": lambda engine: engine.begin(),
    "sqlalchemy.ext.asyncio.session.async_sessionmaker": lambda factory: factory.begin(),
    "psycopg_pool.pool_async.AsyncConnectionPool": lambda pool: pool.connection(),
}


def opener_of(database: object, openers: dict[str, Opener]) -> Opener:
    for each in type(database).__mro__:
        for name, opener in openers.items():
            # Some packages say they are another module than the one they are in.
            if each.__qualname__ == name.rpartition(".")[2] and name.startswith(
                each.__module__.split(".")[0]
            ):
                return opener
    usable = ", ".join(name.rpartition(".")[2] for name in openers)
    raise ConfigError(
        f"database= takes a URL (postgresql://… or sqlite:///file.db), or one of {usable}; "
        f"not a {type(database).__qualname__}"
    )


def no_database() -> ConfigError:
    return ConfigError(
        "this inbox opens no transactions of its own; give it database=, a URL, engine or pool"
    )
