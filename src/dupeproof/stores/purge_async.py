"""Removing expired marks of inboxes, on any connection in a transaction: the store's own, or the caller's."""

from msgspec.structs import asdict

from dupeproof.core.lateness import Tally, merged
from dupeproof.sql import AsyncCallerConnection
from dupeproof.stores import purge_statements


async def purge_inbox(adapted: AsyncCallerConnection, limit: int) -> int:
    """How many marks and entities went. What they show of late duplicates is kept, added up by group."""
    rows = await adapted.execute(purge_statements.REMOVE[adapted.dialect], {"most": limit})
    if adapted.dialect == "mysql":
        await adapted.execute(purge_statements.REMOVE_LOCKED, {"most": len(rows)})
    await adapted.execute(purge_statements.FORGET_ATTEMPTS[adapted.dialect])
    tallies = merged(Tally.of(row) for row in rows if row[0] is not None)
    for tally in tallies:  # in order, so that two purges cannot wait for each other in a circle
        await adapted.execute(purge_statements.ADD[adapted.dialect], asdict(tally))
    gone = sum(int(row[2]) for row in rows)
    if gone < limit:
        left = {"most": limit - gone}
        gone += await adapted.count(purge_statements.REMOVE_ENTITIES[adapted.dialect], left)
    return gone
