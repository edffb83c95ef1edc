"""Lines and bars as numbers for SVG. Pure; colours and sizes are the style sheet's."""

from collections.abc import Sequence

from msgspec import Struct

from dupeproof.core.durations import shown
from dupeproof.core.lateness import BOUNDS, Lateness

WIDTH, HEIGHT = 600, 80


class Bar(Struct, frozen=True):
    title: str
    count: int
    width: float
    """Per cent of the longest."""


def line(values: Sequence[float], most: float) -> str:
    """Points of a polyline from left to right, for values from nothing to `most`."""
    if len(values) == 1:
        values = [values[0]] * 2
    step = WIDTH / max(len(values) - 1, 1)
    return " ".join(
        f"{n * step:.1f},{HEIGHT - (value / most if most else 0) * HEIGHT:.1f}"
        for n, value in enumerate(values)
    )


def bars(lateness: Lateness) -> list[Bar]:
    """One for each bucket, from the first that is not empty to the last."""
    counts = lateness.counts
    filled = [n for n, count in enumerate(counts) if count]
    if not filled:
        return []
    titles = [*(f"under {shown(bound)}" for bound in BOUNDS), "longer"]
    return [
        Bar(titles[n], counts[n], round(100 * counts[n] / max(counts), 1))
        for n in range(filled[0], filled[-1] + 1)
    ]
