"""The embedded default: one SQLite file, shared by any number of threads and processes of a machine."""

from pathlib import Path

from dupeproof.errors import ConfigError
from dupeproof.stores.sqlite.connection import Database
from dupeproof.stores.sqlite.store import SQLiteStore
from dupeproof.stores.sqlite.store_async import AsyncSQLiteStore
from dupeproof.stores.urls import StoreURL

__all__ = ["AsyncSQLiteStore", "SQLiteStore", "open_async", "open_database", "open_sync"]


def open_sync(url: StoreURL) -> SQLiteStore:
    options = url.take(("synchronous", "timeout"))
    return SQLiteStore(_path(url), synchronous=options.get("synchronous", "full"), timeout=url.timeout)


def open_database(url: StoreURL) -> Database:
    """The file itself, for those who keep other things in it than records and marks."""
    options = url.take(("synchronous", "timeout"))
    return Database(_path(url), synchronous=options.get("synchronous", "full"), timeout=url.timeout)


def open_async(url: StoreURL) -> AsyncSQLiteStore:
    return AsyncSQLiteStore(open_sync(url))


def _path(url: StoreURL) -> Path:
    """`sqlite:///file.db` is relative to the working folder, `sqlite:////var/lib/file.db` absolute."""
    if url.parts.netloc or not url.parts.path.strip("/"):
        raise ConfigError(
            "write sqlite:///file.db for a relative path, sqlite:////folder/file.db for an absolute one"
        )
    name = url.parts.path[1:]
    if name == ":memory:":
        raise ConfigError("an in-memory SQLite database is not shared by anyone; use memory:// instead")
    return Path(name)
