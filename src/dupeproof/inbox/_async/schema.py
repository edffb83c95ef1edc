"""The inbox's tables, made on a connection of the caller's."""

from dupeproof.sql import AsyncJoined
from dupeproof.sql.statements import split
from dupeproof.stores.mysql import SCHEMA as MYSQL
from dupeproof.stores.postgres._async.migrating import migrate
from dupeproof.stores.sqlite.connection import INBOX as SQLITE

_SCRIPTS = {"sqlite": SQLITE, "mysql": MYSQL}


async def create_schema(joined: AsyncJoined) -> None:
    if joined.dialect == "postgresql":
        await migrate(joined)
        return
    for statement in split(_SCRIPTS[joined.dialect]):
        await joined.execute(statement)
