"""From a rate and a window to what each way takes, what is best, and which limit comes next. Pure."""

import math
import re

from msgspec import Struct
from msgspec.structs import replace

from dupeproof.cli.plan.measurement import Measured
from dupeproof.cli.plan.sizes import WAYS, Way
from dupeproof.core.durations import milliseconds
from dupeproof.errors import ConfigError

_RATE = re.compile(r"(\d[\d_,]*(?:\.\d+)?) ?([kKmM]?)(?:/([a-z]+))?", re.ASCII)
_SECONDS = {
    **dict.fromkeys(("s", "sec", "second"), 1),
    **dict.fromkeys(("m", "min", "minute"), 60),
    **dict.fromkeys(("h", "hour"), 3_600),
    **dict.fromkeys(("d", "day"), 86_400),
}
_THOUSANDS = {"": 1, "k": 1e3, "m": 1e6}
_MOST = 1e12
"""Ids a second; more than anybody has, and few enough to multiply."""
MONTH = 30 * 86_400
_BUSY = 0.5
"""Of a core, at most: the rest is for peaks."""
_IDS_PER_COMMIT = 100
"""When calls come together, as they do at rates where it counts."""


class Demand(Struct, frozen=True):
    rate: float
    """Ids a second."""
    window: float
    """Seconds."""
    result: int

    @property
    def ids(self) -> int:
        return math.ceil(self.rate * self.window)


class Estimate(Struct, frozen=True):
    way: str
    where: str
    bytes_per_id: float
    total: float
    """Bytes, of all ids in the window."""
    nodes: int
    by: str
    """What makes it so many: size or speed."""
    iops: float
    """Writes a second that must be on disk before they are answered."""
    month: float
    """Bytes of log written in thirty days."""
    wrong: float
    """Odds that a new id is taken for a duplicate."""
    needs: str


class Plan(Struct, frozen=True):
    demand: Demand
    ids: int
    per_month: float
    estimates: list[Estimate]
    layout: str
    why: str
    next_limit: str
    measured: bool


def demand(rate: str, window: str, result: int) -> Demand:
    per_second = _per_second(rate)
    if per_second is None or not 0 < per_second <= _MOST:
        raise ConfigError(
            f"--rate takes a number of ids a time, such as 500/s, 2k/s or 3M/d, above 0 and at most {_MOST:.0e} a "
            f"second; got {rate[:40]!r}"
        )
    return Demand(per_second, milliseconds(window, name="--window") / 1_000, result)


def _per_second(rate: str) -> float | None:
    found = _RATE.fullmatch(rate.strip())
    if found is None or (per := found[3] or "s") not in _SECONDS:
        return None
    number = float(re.sub("[_,]", "", found[1]))
    return number * _THOUSANDS[found[2].lower()] / _SECONDS[per]


def plan(wanted: Demand, measured: dict[str, Measured] | None = None) -> Plan:
    """`measured` replaces the bytes of the stores it names, redis or postgresql."""
    ways = [_with_measured(way, measured or {}) for way in WAYS]
    estimates = [_estimate(way, wanted) for way in ways]
    layout, why, limit = _choice(wanted, {each.way: each for each in estimates})
    return Plan(wanted, wanted.ids, wanted.rate * MONTH, estimates, layout, why, limit, bool(measured))


def _with_measured(way: Way, measured: dict[str, Measured]) -> Way:
    found = measured.get(way.name.partition(":")[0])
    if found is None:
        return way
    exact = found.record if way.keeps_results else found.mark
    return replace(way, bytes_per_id=lambda _: exact)


def _estimate(way: Way, wanted: Demand) -> Estimate:
    per_id = way.bytes_per_id(wanted.result)
    total = per_id * wanted.ids
    by_size = math.ceil(total / way.node_bytes)
    by_speed = math.ceil(wanted.rate / (way.per_core * _BUSY))
    writes = 2 if way.keeps_results else 1
    return Estimate(
        way=way.name,
        where=way.where,
        bytes_per_id=per_id,
        total=total,
        nodes=max(1, by_size, by_speed),
        by="speed" if by_speed > by_size else "size",
        iops=writes * wanted.rate / min(_IDS_PER_COMMIT, max(1.0, wanted.rate / 100))
        if way.writes_per_id
        else 0.0,
        month=way.writes_per_id * wanted.rate * MONTH
        + (wanted.result * wanted.rate * MONTH if way.keeps_results else 0),
        wrong=way.error(wanted.ids),
        needs=way.needs,
    )


def _choice(wanted: Demand, found: dict[str, Estimate]) -> tuple[str, str, str]:
    """The simplest that carries it, why, and where it ends."""
    calls, marks = found["postgresql://, calls"], found["postgresql://, marks or inbox"]
    redis, compact = found["redis://, calls"], found["CompactSeen on Redis"]
    one_file = found["sqlite:///, calls"]
    if one_file.nodes == 1 and wanted.rate <= 500:
        return (
            "sqlite:///file.db on one machine",
            "one file carries it, with no server to run",
            f"a second machine, or about {9_000 * _BUSY:,.0f} calls a second",
        )
    if calls.nodes == 1:
        return (
            "one PostgreSQL: Inbox or Outbox in your own database, Once beside them",
            "it carries the calls with full durability, and effects in it share its transactions",
            f"{9_000 * _BUSY:,.0f} calls a second and core; then Redis in front (redis://…+postgresql://…)",
        )
    if marks.nodes == 1:
        return (
            "one PostgreSQL with Inbox.first_many in batches; results kept with your own rows, not by Once",
            "marks in batches are some eight times cheaper than guarded calls",
            f"{70_000 * _BUSY:,.0f} marks a second and core; then partitions, or Redis Cluster",
        )
    if redis.nodes <= 6:
        return (
            f"redis+cluster:// with {max(3, redis.nodes)} primaries and a replica each",
            "calls are spread over slots, and nodes are added while it runs",
            f"{redis.by} of a node; plain marks would need {compact.nodes} with CompactSeen",
        )
    return (
        f"redis+cluster:// with {max(3, compact.nodes)} primaries and CompactSeen; effects in partitions of their own",
        "at this size every byte counts: ten an id instead of a hundred",
        "the network; then dedup inside Kafka partitions, each with a store of its own, which has no limit but partitions",
    )
