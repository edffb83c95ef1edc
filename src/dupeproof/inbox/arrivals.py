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


_TOLD = {Arrival.FIRST: (Kind.FRESH,), Arrival.AGAIN: (Kind.SEEN,), Arrival.LATE: (Kind.FRESH, Kind.LATE)}


def told(arrivals: Sequence[Arrival]) -> Counter[Kind]:
    """What listeners hear of them, and how often."""
    return Counter(kind for each in arrivals for kind in _TOLD[each])
