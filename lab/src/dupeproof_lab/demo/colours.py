"""What the picture and the page share: the colours, the shape of the grid, the verdict on a consumer."""

import math

from dupeproof_lab.demo.run import Outcome

ONCE, AGAIN, NEVER, EXACT = "#b9d8cf", "#e8590c", "#1d2440", "#1b7f5f"
LEGEND = ((ONCE, "charged once"), (AGAIN, "charged more than once"), (NEVER, "never charged"))


def colour(charges: int) -> str:
    return ONCE if charges == 1 else AGAIN if charges else NEVER


def columns(count: int) -> int:
    """So many squares in a row that the last row is full, where that leaves a pleasant shape."""
    side = math.sqrt(count)
    wide = range(math.ceil(side), math.floor(side * 1.5) + 1)
    return next((width for width in wide if count % width == 0), math.ceil(side * 1.2))


def verdict(outcome: Outcome) -> tuple[str, str]:
    """In a few words, and their colour."""
    parts = []
    if outcome.audit.duplicates:
        parts.append(f"{outcome.audit.duplicates:,} charges too many")
    if outcome.audit.losses:
        parts.append(f"{outcome.audit.losses:,} orders lost")
    if not parts:
        return "all exactly once", EXACT
    return ", ".join(parts), AGAIN if outcome.audit.duplicates else NEVER
