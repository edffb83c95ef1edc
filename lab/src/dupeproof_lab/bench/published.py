"""The table everyone quotes, row by row: what it says, what the same method does here, and what dupeproof does."""

from msgspec import Struct

from dupeproof_lab.bench.model import Row
from dupeproof_lab.bench.size import Weight


class Published(Struct, frozen=True, kw_only=True):
    method: str
    speed: float
    """Ids a second, as published."""
    megabytes: float
    """For a million ids, as published."""
    durability: str
    same: str | None
    """The candidate that is this method; None where it needs a module the server does not have."""
    ours: tuple[str, ...]
    """Ours for the same purpose: the first that was measured, its speed and its weight."""


PUBLISHED: tuple[Published, ...] = (
    Published(
        method="in-memory set",
        speed=2_000_000,
        megabytes=50,
        durability="none",
        same="memory.loop",
        ours=("memory.fresh",),
    ),
    Published(
        method="Redis SET NX",
        speed=100_000,
        megabytes=80,
        durability="restarts",
        same="redis.set",
        ours=("redis.compact", "redis.fresh"),
    ),
    Published(
        method="Redis Bloom",
        speed=200_000,
        megabytes=2,
        durability="restarts",
        same=None,
        ours=("redis.bloom",),
    ),
    Published(
        method="PostgreSQL unique constraint",
        speed=15_000,
        megabytes=40,
        durability="full",
        same="postgres.insert",
        ours=("postgres.fresh",),
    ),
)


class Compared(Struct, frozen=True, kw_only=True):
    """One row of it, filled in."""

    method: str
    durability: str
    published_speed: float
    published_megabytes: float
    here_speed: float | None
    here_megabytes: float | None
    our_name: str | None
    our_speed: float | None
    our_megabytes: float | None


def compared(rows: list[Row], weights: list[Weight]) -> list[Compared]:
    measured = {row.name: row for row in rows if row.speeds}
    sizes: dict[str | None, float | None] = {weight.layout: weight.bytes_per_id for weight in weights}
    found = []
    for each in PUBLISHED:
        same = None if each.same is None else measured.get(each.same)
        ours = next((measured[name] for name in each.ours if name in measured), None)
        found.append(
            Compared(
                method=each.method,
                durability=each.durability,
                published_speed=each.speed,
                published_megabytes=each.megabytes,
                here_speed=None if same is None else same.speed,
                here_megabytes=None if same is None else sizes.get(same.layout),
                our_name=None if ours is None else ours.name,
                our_speed=None if ours is None else ours.speed,
                our_megabytes=None if ours is None else sizes.get(ours.layout),
            )
        )
    return found
