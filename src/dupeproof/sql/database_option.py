"""What may be given as `database=`, where a consumer has to open the transaction itself."""

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from importlib import import_module
from typing import Any

from dupeproof.errors import ConfigError, StoreUnavailable
from dupeproof.sql.faults import is_database_error

Opener = Callable[[Any], Any]
"""From an engine, a factory or a pool to a context manager that begins, and commits or rolls back at its end."""
NOT_YOURS = (
    "this transaction is ended by whoever began it: leave out commit() and rollback(), raise an error to undo"
)


def _refuse() -> None:
    raise ConfigError(NOT_YOURS)


@contextmanager
def not_to_commit(lent: Any) -> Iterator[None]:
    """Those who work with a connection or session of SQLAlchemy meanwhile cannot end its transaction."""
    lent.commit = lent.rollback = _refuse
    try:
        yield
    finally:
        del lent.commit, lent.rollback


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
        f"database= takes a URL (postgresql://…, mysql://… or sqlite:///file.db), 'django:default', or one of {usable}; "
        f"not a {type(database).__qualname__}"
    )


def no_database() -> ConfigError:
    return ConfigError(
        "this inbox opens no transactions of its own; give it database=, a URL, engine or pool"
    )


def no_url(database: str, usable: str, other: str) -> ConfigError:
    """Where there is no scheme, nothing of it is shown: what stands there instead may hold a password."""
    scheme, separator, _ = database.partition("://")
    shown = f"{scheme}://" if separator else "a text without ://"
    return ConfigError(
        f"database= takes {usable}, each also with a driver as SQLAlchemy writes it, or 'django:default'; not {shown}. "
        f"For others give {other}"
    )


def is_mysql(url: str) -> bool:
    """mysql:// or mariadb://, also with the name of a driver as SQLAlchemy writes it: mysql+pymysql://."""
    return "://" in url and url.partition("://")[0].partition("+")[0] in ("mysql", "mariadb")


_POSTGRES_DRIVERS = {
    "psycopg": "psycopg",
    "psycopg_async": "psycopg",
    "psycopg2": "psycopg",
    "asyncpg": "asyncpg",
}
_MYSQL_DRIVERS = dict.fromkeys(("pymysql", "mysqldb", "aiomysql", "asyncmy"), "aiomysql")
_DRIVERS = {
    "postgresql": _POSTGRES_DRIVERS,
    "postgres": _POSTGRES_DRIVERS,
    "mysql": _MYSQL_DRIVERS,
    "mariadb": _MYSQL_DRIVERS,
    "sqlite": {"pysqlite": "aiosqlite", "aiosqlite": "aiosqlite"},
}
"""What SQLAlchemy writes after the plus, and the driver of that for tasks."""
_FOR_THREADS = {
    "asyncpg": "psycopg",
    "psycopg2": "psycopg",
    "psycopg_async": "psycopg",
    "mysqldb": "pymysql",
    "aiomysql": "pymysql",
    "asyncmy": "pymysql",
    "aiosqlite": "pysqlite",
}
_USUAL = {"mysql": "pymysql", "mariadb": "pymysql"}
"""Where no driver is named and SQLAlchemy's connection is given all the same."""


def without_driver(url: str) -> str:
    """A URL as SQLAlchemy writes it, postgresql+asyncpg://, without the driver; any other as it is."""
    scheme, separator, rest = url.partition("://")
    name, plus, given = scheme.partition("+")
    if not plus or not separator or name not in _DRIVERS:
        return url
    if given not in _DRIVERS[name]:
        raise ConfigError(
            f"{scheme}:// names a driver that dupeproof does not know; leave it out ({name}://…), or write one of "
            + ", ".join(f"{name}+{each}://" for each in _DRIVERS[name])
        )
    return f"{name}{separator}{rest}"


def engine_url(url: str, *, is_async: bool) -> str | None:
    """The URL of an engine, where it is one as SQLAlchemy writes it, with a driver that threads or tasks can use; else None."""
    scheme, _, rest = without_driver(url).partition("://")
    given = url.partition("://")[0].partition("+")[2] or _USUAL.get(scheme)
    if scheme not in _DRIVERS or given is None:
        return None
    driver = _DRIVERS[scheme][given] if is_async else _FOR_THREADS.get(given, given)
    return f"{'postgresql' if scheme == 'postgres' else scheme}+{driver}://{rest}"


def driver(module: str, extra: str) -> Any:
    try:
        return import_module(module)
    except ModuleNotFoundError as exc:
        raise ConfigError(
            f'this needs {exc.name}, which is not installed; run: pip install "dupeproof[{extra}]"'
        ) from exc


@contextmanager
def reaching(advice: Callable[[str], str] = "cannot be reached: {}".format) -> Iterator[None]:
    """Around connecting: what the driver says when it cannot. Drivers do not print passwords of URLs they could read."""
    try:
        yield
    except Exception as exc:
        if not is_database_error(exc) and not isinstance(exc, OSError):
            raise
        raise StoreUnavailable(f"the database {advice(str(getattr(exc, 'orig', exc)))}") from exc
