# Written by tools/twins.py from src/dupeproof/inbox/_async/schema.py; change that file instead.
"""The inbox's tables, made on a connection of the caller's."""

from dupeproof.sql import Joined
from dupeproof.sql.statements import split
from dupeproof.stores.mysql import SCHEMA as MYSQL
from dupeproof.stores.postgres._sync.migrating import migrate
from dupeproof.stores.sqlite.connection import INBOX as SQLITE

_SCRIPTS = {"sqlite": SQLITE, "mysql": MYSQL}


def create_schema(joined: Joined) -> None:
    if joined.dialect == "postgresql":
        migrate(joined)
        return
    for statement in split(_SCRIPTS[joined.dialect]):
        joined.execute(statement)
