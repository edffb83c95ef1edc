"""All groups of a database at a glance: their windows, and how late their duplicates come."""

from typing import Any

from msgspec import Struct

from dupeproof.core.lateness import Lateness, Tally, lateness_by_group
from dupeproof.inbox import statements, windows
from dupeproof.inbox.inbox import Inbox
from dupeproof.sql import Translated, adapt
from dupeproof.sql.faults import table_missing

_TRANSLATED = Translated(table_missing("dupeproof_windows", "inbox"))


class Group(Struct, frozen=True):
    name: str
    window: int | None
    """Milliseconds; None where the code says."""
    lateness: Lateness


def read_groups(database: Any) -> dict[str, Group]:
    """By name; those that have a window of their own, or had a duplicate. `database` as for `Inbox`."""
    with _TRANSLATED, Inbox("any", database=database) as inbox, inbox.transaction() as connection:
        adapted = adapt(connection)
        chosen = dict(adapted.execute(windows.LIST))
        found = lateness_by_group(map(Tally.of, adapted.execute(statements.LATENESS)))
    names = sorted(chosen.keys() | found.keys())
    return {name: Group(name, chosen.get(name), found.get(name, Lateness())) for name in names}
