# Written by tools/twins.py from src/dupeproof/stores/mysql/tables_async.py; change that file instead.
"""The inbox's tables in MariaDB or MySQL, by URL: looked after in transactions of their own."""

from typing import Any

from dupeproof.core.records import Stats
from dupeproof.sql import Translated, adapt
from dupeproof.sql.databases import opened
from dupeproof.sql.faults import table_missing
from dupeproof.stores.purge import purge_inbox

_TRANSLATED = Translated(table_missing("dupeproof_inbox", "inbox"))
_ONLY_ROWS = "SET TRANSACTION ISOLATION LEVEL READ COMMITTED"
"""By default the gaps between rows are locked too, and the last one is where all new marks belong."""
_COUNT = "SELECT COALESCE(SUM(expires_at > UTC_TIMESTAMP(3)), 0), count(*) FROM dupeproof_inbox"
_SIZE = (
    "SELECT COALESCE(SUM(data_length + index_length), 0) FROM information_schema.tables"
    " WHERE table_schema = database() AND table_name IN ('dupeproof_inbox', 'dupeproof_lateness', 'dupeproof_windows',"
    " 'dupeproof_entities')"
)


class MySQLTables:
    """No store: it holds no claims. What it has can expire, and be counted."""

    def __init__(self, url: Any) -> None:
        self._opened = opened(url)

    def purge(self, limit: int) -> int:
        with _TRANSLATED:
            with self._opened() as connection:
                adapted = adapt(connection)
                adapted.execute(_ONLY_ROWS)
                return purge_inbox(adapted, limit)

    def stats(self) -> Stats:
        with _TRANSLATED:
            with self._opened() as connection:
                adapted = adapt(connection)
                [(live, rows)] = adapted.execute(_COUNT)
                [(size,)] = adapted.execute(_SIZE)
        return Stats(marks=0, records={}, expired=rows - int(live), inbox=int(live), bytes=int(size))

    def close(self) -> None:
        self._opened.close()
