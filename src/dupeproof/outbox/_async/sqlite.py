# No twin: a worker thread here, the source itself in the sync counterpart.
"""Opening the outbox in an SQLite file, for tasks."""

from dupeproof.outbox._sync import sqlite
from dupeproof.outbox.sqlite import AsyncSQLiteSource
from dupeproof.stores.urls import StoreURL


def open_source(url: StoreURL) -> AsyncSQLiteSource:
    return AsyncSQLiteSource(sqlite.open_source(url))
