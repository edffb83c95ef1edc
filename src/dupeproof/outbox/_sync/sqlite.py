# No twin: the source itself here, a worker thread in the async counterpart.
"""Opening the outbox in an SQLite file, for threads."""

from dupeproof.outbox.sqlite import SQLiteSource
from dupeproof.stores.sqlite import open_database
from dupeproof.stores.urls import StoreURL


def open_source(url: StoreURL) -> SQLiteSource:
    return SQLiteSource(open_database(url))
