"""Removing expired marks of inboxes, on any connection in a transaction: the store's own, or the caller's."""

from msgspec.structs import asdict

from dupeproof.core.lateness import Tally, merged
from dupeproof.sql import AsyncJoined
from dupeproof.stores import purge_statements


async def purge_inbox(joined: AsyncJoined, limit: int) -> int:
    """How many went. What they told of late duplicates is kept, added up by group."""
    rows = await joined.execute(purge_statements.REMOVE[joined.dialect], {"most": limit})
    if joined.dialect == "mysql":
        await joined.execute(purge_statements.REMOVE_LOCKED, {"most": len(rows)})
    await joined.execute(purge_statements.FORGET_ATTEMPTS[joined.dialect])
    tallies = merged(Tally.of(row) for row in rows if row[0] is not None)
    for tally in tallies:  # in order, so that two purges cannot wait for each other in a circle
        await joined.execute(purge_statements.ADD[joined.dialect], asdict(tally))
    return sum(int(row[2]) for row in rows)
