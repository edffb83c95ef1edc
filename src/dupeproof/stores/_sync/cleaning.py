# Written by tools/twins.py from src/dupeproof/stores/_async/cleaning.py; change that file instead.
"""What a purge cleans, from its URL."""

from dupeproof.core.protocols import Purgeable
from dupeproof.sql.databases import is_mysql
from dupeproof.stores.mysql._sync.tables import MySQLTables
from dupeproof.stores.opening import open_store


def open_purgeable(url: str) -> Purgeable:
    """A store, or the tables of inboxes in a database that is none."""
    return MySQLTables(url) if is_mysql(url) else open_store(url)
