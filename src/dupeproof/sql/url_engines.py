"""What an engine of SQLAlchemy's is made with, for a URL that names one of its drivers."""

import time
from collections.abc import Callable
from typing import Any

from dupeproof.errors import ConfigError
from dupeproof.sql.database_option import driver

_OURS = ("timeout", "pool")
_POOL = "10"
_KEPT_FOR = 60.0
"""Seconds. What stands between drops idle connections without a word, after some minutes."""
_SURE_FOR = 1.0
"""Seconds for which a connection that was given back is used again without asking whether it is still good."""
_SINCE = "dupeproof_since"


def made(url: str, create: Callable[..., Any], *, is_async: bool) -> Any:
    """The engine. It keeps as many connections as `pool=` says, and opens more while more are in use."""
    sqlalchemy = driver("sqlalchemy", "mysql")
    try:
        place = sqlalchemy.engine.make_url(url)
    except Exception as exc:
        raise ConfigError("database= is not a URL that SQLAlchemy can read") from exc
    backend = place.get_backend_name()
    options: dict[str, Any] = {"poolclass": sqlalchemy.pool.NullPool}  # to open a file costs little
    if backend != "sqlite":
        pool = str(place.query.get("pool", _POOL))
        if not (pool.isascii() and pool.isdigit()) or int(pool) < 1:
            raise ConfigError(f"pool must be a number of connections, at least 1; got {pool!r}")
        options = {"pool_size": int(pool), "max_overflow": -1, "pool_use_lifo": True}
    if place.get_driver_name() == "psycopg":  # behind a pooler, what was prepared may be with another server
        options["connect_args"] = {"prepare_threshold": None}
        if is_async:
            kept = driver("dupeproof.sql.hosts_async", "postgres").AsyncKeptConnection
            options["connect_args"]["async_creator_fn"] = kept.connect
    try:
        engine = create(place.difference_update_query(_OURS), **options)
    except ModuleNotFoundError as exc:
        raise ConfigError(
            f"{place.drivername}:// needs {exc.name}, which is not installed; run: pip install {exc.name}"
        ) from exc
    plain = getattr(engine, "sync_engine", engine)
    if backend == "sqlite":
        sqlalchemy.event.listen(plain, "connect", _leave_begin_to_us)
        sqlalchemy.event.listen(plain, "begin", _begin_immediate)
    else:
        sqlalchemy.event.listen(plain, "checkin", _remember)
        sqlalchemy.event.listen(plain, "checkout", _Checked(plain, sqlalchemy.exc.InvalidatePoolError))
    if place.get_driver_name() == "psycopg" and not is_async:
        sqlalchemy.event.listen(plain, "do_connect", _connect_quietly)
    return engine


def _connect_quietly(_: Any, __: Any, arguments: Any, options: Any) -> Any:
    """One that says nothing when it is forgotten."""
    return driver("dupeproof.sql.hosts", "postgres").KeptConnection.connect(*arguments, **options)


def _leave_begin_to_us(connection: Any, _: Any) -> None:
    connection.isolation_level = None


def _begin_immediate(connection: Any) -> None:
    """The write lock is taken first: what is read inside cannot be outdated."""
    connection.exec_driver_sql("BEGIN IMMEDIATE")


def _remember(_: Any, record: Any) -> None:
    record.info[_SINCE] = time.monotonic()


class _Checked:
    """Looks at a connection before it is used again. With one that is lost all are given up that were idle as long."""

    def __init__(self, engine: Any, lost: type[Exception]) -> None:
        self._dialect = engine.dialect
        self._lost = lost

    def __call__(self, connection: Any, record: Any, _: Any) -> None:
        idle = time.monotonic() - record.info.get(_SINCE, float("inf"))
        if idle == float("inf") or idle < _SURE_FOR:
            return
        if idle > _KEPT_FOR:
            raise self._lost
        try:
            self._dialect.do_ping(connection)
        except Exception as exc:
            raise self._lost from exc
