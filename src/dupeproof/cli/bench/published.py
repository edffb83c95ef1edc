"""The table everyone quotes, row by row: what it says, what the same method does here, and what dupeproof does."""

from statistics import median

from msgspec import Struct

from dupeproof.cli.bench.model import Row
from dupeproof.cli.bench.weighing import Weight


class Published(Struct, frozen=True, kw_only=True):
    method: str
    speed: float
    """Ids a second, as published."""
    megabytes: float
    """For a million ids, as published."""
    durability: str
    same: str | None
    """The contender that is this method; None where it needs a module the server does not have."""
    ours: tuple[str, ...]
    """Ours for the same purpose, of which the fastest is shown."""
    layout: str
    """The form of ours that is weighed."""


PUBLISHED: tuple[Published, ...] = (
    Published(
        method="in-memory set",
        speed=2_000_000,
        megabytes=50,
        durability="none",
        same="memory.loop",
        ours=("memory.fresh", "memory.seen"),
        layout="memory.marks",
    ),
    Published(
        method="Redis SET NX",
        speed=100_000,
        megabytes=80,
        durability="restarts",
        same="redis.set",
        ours=("redis.fresh", "redis.tasks", "redis.compact"),
        layout="redis.compact",
    ),
    Published(
        method="Redis Bloom",
        speed=200_000,
        megabytes=2,
        durability="restarts",
        same=None,
        ours=("redis.bloom",),
        layout="redis.bloom",
    ),
    Published(
        method="PostgreSQL unique constraint",
        speed=15_000,
        megabytes=40,
        durability="full",
        same="postgres.insert",
        ours=("postgres.fresh", "postgres.tasks"),
        layout="postgres.marks",
    ),
)


class Compared(Struct, frozen=True, kw_only=True):
    """One row of it, filled in."""

    method: str
    durability: str
    published_speed: float
    published_megabytes: float
    here_speed: float | None
    our_speed: float | None
    our_name: str | None
    our_megabytes: float | None


def compared(rows: list[Row], weights: list[Weight]) -> list[Compared]:
    speeds = {row.name: median(row.speeds) for row in rows if row.speeds}
    sizes = {weight.layout: weight.bytes_per_id for weight in weights}
    found = []
    for each in PUBLISHED:
        best = max(
            (name for name in each.ours if name in speeds), key=lambda name: speeds[name], default=None
        )
        found.append(
            Compared(
                method=each.method,
                durability=each.durability,
                published_speed=each.speed,
                published_megabytes=each.megabytes,
                here_speed=None if each.same is None else speeds.get(each.same),
                our_speed=None if best is None else speeds[best],
                our_name=best,
                our_megabytes=sizes.get(each.layout),
            )
        )
    return found
