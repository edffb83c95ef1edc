"""How a message came: for the first time, again, or again when its window was over. Pure."""

from collections import Counter
from collections.abc import Sequence
from enum import StrEnum

from dupeproof.core.events import Kind


class Arrival(StrEnum):
    FIRST = "first"
    AGAIN = "again"
    """A duplicate."""
    LATE = "late"
    """A duplicate that came after its window, while its mark was not purged yet; taken for new."""


_KINDS = {Arrival.FIRST: (Kind.FRESH,), Arrival.AGAIN: (Kind.SEEN,), Arrival.LATE: (Kind.FRESH, Kind.LATE)}


def kinds_of(arrivals: Sequence[Arrival]) -> Counter[Kind]:
    """The events of these, and how often each."""
    return Counter(kind for each in arrivals for kind in _KINDS[each])
