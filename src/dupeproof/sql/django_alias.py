"""Django's databases by alias, as settings name them: "django:default"."""

from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any
from urllib.parse import quote, urlencode

from dupeproof.errors import ConfigError
from dupeproof.sql.database_option import driver

_PREFIX = "django:"
_SCHEMES = {"postgresql": "postgresql", "mysql": "mysql", "sqlite": "sqlite"}
_NOT_LIBPQ = ("pool", "isolation_level", "assume_role", "server_side_binding", "client_encoding")
"""Options of Django's own among those it passes on to psycopg."""


def alias_of(database: object) -> str | None:
    """None for what is no alias."""
    if not isinstance(database, str) or not database.startswith(_PREFIX):
        return None
    alias = database.removeprefix(_PREFIX)
    if not alias or "://" in database:
        raise ConfigError(
            "write django: and the alias of a database of your settings, such as 'django:default'"
        )
    return alias


def connection_of(alias: str) -> Any:
    """Of this thread. The settings must be there by now."""
    db = driver("django.db", "django")
    exceptions = driver("django.core.exceptions", "django")
    try:
        return db.connections[alias]
    except exceptions.ImproperlyConfigured as exc:
        raise ConfigError(
            f"{_PREFIX}{alias}: Django's settings are not there; set DJANGO_SETTINGS_MODULE and call django.setup() first"
        ) from exc
    except db.utils.ConnectionDoesNotExist as exc:
        raise ConfigError(f"{_PREFIX}{alias}: settings.DATABASES has no {alias!r}") from exc


@contextmanager
def transaction_of(alias: str) -> Iterator[Any]:
    """Inside `atomic`, which nobody else can commit.

    As around a request, a connection that was lost, or is older than CONN_MAX_AGE, is closed before and after.
    """
    connection = connection_of(alias)
    transaction = driver("django.db.transaction", "django")
    connection.close_if_unusable_or_obsolete()
    try:
        with transaction.atomic(using=alias, durable=True):
            yield connection
    finally:
        connection.close_if_unusable_or_obsolete()


def url_of(alias: str) -> str:
    """A URL for stores and relays, which need connections of their own: their decisions are committed at once."""
    connection = connection_of(alias)
    settings = connection.settings_dict
    name = str(settings["NAME"])
    scheme = _SCHEMES.get(connection.vendor)
    if scheme is None:
        raise ConfigError(
            f"{_PREFIX}{alias} is a database of {connection.vendor}; use PostgreSQL, SQLite, MariaDB or MySQL"
        )
    if scheme == "sqlite":
        if ":memory:" in name or "mode=memory" in name:
            raise ConfigError(f"{_PREFIX}{alias} is in memory, and nobody else can look into it; give a file")
        return f"sqlite:///{name}"
    user, password, host, port = (
        str(settings.get(each) or "") for each in ("USER", "PASSWORD", "HOST", "PORT")
    )
    given = settings.get("OPTIONS") or {}
    options = {key: str(value) for key, value in given.items() if key not in _NOT_LIBPQ}
    if scheme != "postgresql":
        options, host = {}, host or "localhost"
    if host.startswith("/"):
        options["host"], host = host, ""
    credentials = quote(user, safe="") + (f":{quote(password, safe='')}" if password else "")
    place = f"{credentials}@" if credentials else ""
    query = f"?{urlencode(options, quote_via=quote)}" if options else ""
    return f"{scheme}://{place}{host}{f':{port}' if port else ''}/{quote(name, safe='')}{query}"
