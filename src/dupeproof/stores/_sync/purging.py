# Written by tools/twins.py from src/dupeproof/stores/_async/purging.py; change that file instead.
"""Removing expired marks of inboxes, on any connection in a transaction: the store's own, or the caller's."""

from msgspec.structs import asdict

from dupeproof.core.lateness import Tally, merged
from dupeproof.sql import Joined
from dupeproof.stores import purging


def purge_inbox(joined: Joined, limit: int) -> int:
    """How many went. What they told of late duplicates is kept, added up by group."""
    rows = joined.execute(purging.REMOVE[joined.dialect], {"most": limit})
    if joined.dialect == "mysql":
        joined.execute(purging.REMOVE_LOCKED, {"most": len(rows)})
    joined.execute(purging.FORGET_ATTEMPTS[joined.dialect])
    tallies = merged(Tally.of(row) for row in rows if row[0] is not None)
    for tally in tallies:  # in order, so that two purges cannot wait for each other in a circle
        joined.execute(purging.ADD[joined.dialect], asdict(tally))
    return sum(int(row[2]) for row in rows)
