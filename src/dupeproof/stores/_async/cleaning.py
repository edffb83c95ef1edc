"""What a purge cleans, from its URL."""

from dupeproof.core.protocols import AsyncPurgeable
from dupeproof.sql.databases import is_mysql
from dupeproof.stores.mysql._async.tables import AsyncMySQLTables
from dupeproof.stores.opening import open_async_store


def open_purgeable(url: str) -> AsyncPurgeable:
    """A store, or the tables of inboxes in a database that is none."""
    return AsyncMySQLTables(url) if is_mysql(url) else open_async_store(url)
