"""The tables of inbox and outbox, made on a connection of the caller's."""

from collections.abc import Sequence
from typing import Literal

from dupeproof.sql import AsyncCallerConnection
from dupeproof.sql.statements import Dialect, split
from dupeproof.stores import mysql
from dupeproof.stores.definitions import names_in, statements_of
from dupeproof.stores.postgres.migrate_async import migrate
from dupeproof.stores.sqlite import connection as sqlite

Part = Literal["inbox", "outbox"]
_SCRIPTS: dict[tuple[Dialect, Part], str] = {
    ("sqlite", "inbox"): sqlite.INBOX,
    ("sqlite", "outbox"): sqlite.OUTBOX,
    ("mysql", "inbox"): mysql.INBOX,
    ("mysql", "outbox"): mysql.OUTBOX,
}


async def create_groups(
    adapted: AsyncCallerConnection, groups: Sequence[str] = (), *, to: int | None = None
) -> list[int]:
    """The tables of these groups, or all. Of PostgreSQL's migrations the versions that were applied now."""
    wanted = names_in(tuple(groups))
    if adapted.dialect == "postgresql":
        return await migrate(adapted, to=to, wanted=wanted if groups else None)
    for statement in statements_of(adapted.dialect, wanted):
        await adapted.execute(statement)
    return []


async def create_tables(adapted: AsyncCallerConnection, part: Part) -> None:
    """Making them twice is fine. PostgreSQL has all that is ours in one series of migrations."""
    if adapted.dialect == "postgresql":
        await migrate(adapted)
        return
    for statement in split(_SCRIPTS[adapted.dialect, part]):
        await adapted.execute(statement)
