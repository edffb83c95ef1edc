"""The words of a benchmark: candidates, the benchmarks they run in, and what became of them."""

import os
from collections.abc import Callable
from statistics import median
from typing import Any, Literal

from msgspec import Struct

from dupeproof_lab.bench.environments.base import Environment
from dupeproof_lab.bench.shapes import Shape

OURS = "dupeproof"
BY_HAND = "by hand"
WINDOW = 600
"""Seconds everything is kept for, so that a server that is not ours is clean again by itself."""

Store = Literal["memory", "sqlite", "redis", "postgres"]
STORES: tuple[Store, ...] = ("memory", "sqlite", "redis", "postgres")


class Unavailable(Exception):
    """It cannot be measured here; the text says why and what would help."""


class Candidate(Struct, frozen=True, kw_only=True):
    """One way of doing one thing. `make` gives a context manager of the operation, async where the shape is tasks."""

    name: str
    who: str
    what: str
    shape: Shape
    make: Callable[[Environment], Any]
    fresh: Callable[[Any], int] | None = None
    """How many ids an answer calls new; None for guarded calls, which answer with their value."""
    layout: str | None = None
    """What it leaves in the store: candidates that leave the same are weighed once."""
    durability: str | None = None
    """Where it is not that of the store."""


class Benchmark(Struct, frozen=True, kw_only=True):
    """Candidates that are compared with each other, and therefore run in turn."""

    title: str
    store: Store
    candidates: tuple[Candidate, ...]
    replay: bool = False
    """Every key is done before the clock starts."""
    same_count: bool = False
    """All get the same number of ids, where the speed depends on it."""


class Row(Struct, frozen=True, kw_only=True):
    """What became of one candidate: its rounds, or the reason why there are none."""

    benchmark: str
    store: Store
    name: str
    who: str
    what: str
    shape: str
    layout: str | None
    durability: str
    speeds: list[float] = []
    """Ids or calls a second, one figure per round."""
    count: int = 0
    """Ids or calls in a round."""
    p50: float | None = None
    p99: float | None = None
    """Seconds of one call; of one batch where there are batches."""
    reason: str | None = None

    @property
    def speed(self) -> float | None:
        return median(self.speeds) if self.speeds else None


class Plan(Struct, frozen=True, kw_only=True):
    """How much of everything: bounds in time and in number."""

    rounds: int
    seconds: float
    """A round is made about this long, by the number of ids in it."""
    most: int
    """Ids in a round at most."""
    same_count: int
    weighed: int
    """Ids put into a store before it is weighed."""
    weighing_seconds: float
    """After which filling a store ends, where that number takes too long."""
    sizes: tuple[int, ...]
    """Of the scaling run."""
    scaling_seconds: float
    """For one store."""


# Both weigh at 95 % of a power of two, so that hash tables are equally full.
FULL = Plan(
    rounds=7,
    seconds=0.3,
    most=200_000,
    same_count=500_000,
    weighed=1_000_000,
    weighing_seconds=40,
    sizes=(10_000, 100_000, 1_000_000, 10_000_000),
    scaling_seconds=600,
)
QUICK = Plan(
    rounds=5,
    seconds=0.02,
    most=20_000,
    same_count=50_000,
    weighed=31_250,
    weighing_seconds=2,
    sizes=(1_000, 10_000, 100_000),
    scaling_seconds=10,
)


def make_ids(count: int) -> list[str]:
    """New random ids, as text that nobody has hashed yet."""
    digits = os.urandom(16 * count).hex()
    return [
        f"{d[:8]}-{d[8:12]}-{d[12:16]}-{d[16:20]}-{d[20:]}"
        for d in (digits[at : at + 32] for at in range(0, len(digits), 32))
    ]
