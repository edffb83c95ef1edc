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
        f"database= takes a URL (postgresql://…, mysql://… or sqlite:///file.db), or one of {usable}; "
        f"not a {type(database).__qualname__}"
    )


def no_database() -> ConfigError:
    return ConfigError(
        "this inbox opens no transactions of its own; give it database=, a URL, engine or pool"
    )


def shown_scheme(url: str) -> str:
    """Where there is none, nothing of it: what stands there instead may hold a password."""
    scheme, separator, _ = url.partition("://")
    return f"{scheme}://" if separator else "a text without ://"


def is_mysql(url: str) -> bool:
    """mysql:// or mariadb://, also with the name of a driver as SQLAlchemy writes it: mysql+pymysql://."""
    return "://" in url and url.partition("://")[0].partition("+")[0] in ("mysql", "mariadb")


def engine_url(url: str, driver: str) -> str:
    """The URL with this driver, unless it names another than the usual one, which tasks cannot use."""
    scheme, _, rest = url.partition("://")
    name, _, given = scheme.partition("+")
    return f"{name}+{driver if given in ('', 'pymysql') else given}://{rest}"


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
