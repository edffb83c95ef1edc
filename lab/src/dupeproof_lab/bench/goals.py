"""What must be shown: every goal a figure measured side by side in this run, beside its target."""

from collections.abc import Callable
from functools import partial
from statistics import median
from typing import Literal

from msgspec import Struct

from dupeproof_lab.bench.growth import GROWING, Growth
from dupeproof_lab.bench.model import BY_HAND, OURS, Row
from dupeproof_lab.bench.size import Weight


class NotMeasured(Exception):
    """The text says what was missing."""


class Results(Struct, frozen=True, kw_only=True):
    """All that was measured."""

    rows: list[Row]
    weights: list[Weight]
    growths: list[Growth]
    false_positives: float | str | None
    """The share, or why there is none."""

    def row(self, name: str) -> Row:
        found = next((row for row in self.rows if row.name == name), None)
        if found is None:
            raise NotMeasured(f"{name.partition('.')[0]} was left out")
        if not found.speeds:
            raise NotMeasured(str(found.reason))
        return found


Measure = Callable[[Results], list[float]]
_LARGE = 10_000_000


class Goal(Struct, frozen=True, kw_only=True):
    title: str
    bound: Literal["at least", "at most"]
    target: float
    unit: str
    measure: Measure


class Verdict(Struct, frozen=True, kw_only=True):
    title: str
    bound: Literal["at least", "at most"]
    target: float
    unit: str
    median: float | None = None
    low: float | None = None
    high: float | None = None
    met: bool | None = None
    """None where it was not measured."""
    reason: str | None = None


def judge(goal: Goal, results: Results) -> Verdict:
    verdict = partial(Verdict, title=goal.title, bound=goal.bound, target=goal.target, unit=goal.unit)
    try:
        figures = goal.measure(results)
    except NotMeasured as exc:
        return verdict(reason=str(exc))
    middle = median(figures)
    met = middle >= goal.target if goal.bound == "at least" else middle <= goal.target
    return verdict(median=middle, low=min(figures), high=max(figures), met=met)


# What is measured


def _ratio(ours: str, other: str) -> Measure:
    def measure(results: Results) -> list[float]:
        return _per_round(results.row(ours), results.row(other))

    return measure


def _ratio_to_fastest_peer(ours: str) -> Measure:
    """Of those in the same benchmark, whatever their shape."""

    def measure(results: Results) -> list[float]:
        mine = results.row(ours)
        benchmark = [
            row for row in results.rows if row.benchmark == mine.benchmark and row.who not in (OURS, BY_HAND)
        ]
        peers = [row for row in benchmark if row.speeds]
        if not peers:
            raise NotMeasured("; ".join(sorted({str(row.reason) for row in benchmark})))
        return _per_round(mine, max(peers, key=lambda row: median(row.speeds)))

    return measure


def _per_round(mine: Row, other: Row) -> list[float]:
    return [a / b for a, b in zip(mine.speeds, other.speeds, strict=True)]


def _bytes(layout: str) -> Measure:
    def measure(results: Results) -> list[float]:
        weight = next((each for each in results.weights if each.layout == layout), None)
        if weight is None:
            raise NotMeasured(f"{layout.partition('.')[0]} was left out")
        if weight.bytes_per_id is None:
            raise NotMeasured(str(weight.reason))
        return [weight.bytes_per_id]

    return measure


def _false_positives(results: Results) -> list[float]:
    if isinstance(results.false_positives, float):
        return [100 * results.false_positives]
    raise NotMeasured(results.false_positives or "memory was left out")


def _growth(name: str) -> Measure:
    def measure(results: Results) -> list[float]:
        growth = next((each for each in results.growths if each.name == name), None)
        if growth is None:
            raise NotMeasured("needs --scaling")
        if growth.reason is not None:
            raise NotMeasured(growth.reason)
        largest = growth.points[-1]
        if largest.size < _LARGE:
            raise NotMeasured(f"needs {_LARGE:,} ids, and so --scaling without --quick")
        return largest.ratios

    return measure


# The table


def _faster(title: str, target: float, measure: Measure) -> Goal:
    return Goal(title=title, bound="at least", target=target, unit="×", measure=measure)


def _smaller(title: str, target: float, unit: str, measure: Measure) -> Goal:
    return Goal(title=title, bound="at most", target=target, unit=unit, measure=measure)


_peer = _ratio_to_fastest_peer
GOALS: tuple[Goal, ...] = (
    _faster("Redis fresh, batches / SET NX EX per call", 10, _ratio("redis.fresh", "redis.set")),
    _faster("Redis fresh, batches / redis-py pipeline", 2.5, _ratio("redis.fresh", "redis.pipeline")),
    _faster("Redis seen, 64 tasks / redis-py asyncio, 64 tasks", 8, _ratio("redis.tasks", "redis.asyncio")),
    _faster("Redis seen, one caller / SET NX EX per call", 0.9, _ratio("redis.seen", "redis.set")),
    _faster("guarded call, Redis / by hand", 0.9, _ratio("redis.one.new.ours", "redis.one.new.by_hand")),
    _faster(
        "guarded call, PostgreSQL / by hand",
        0.9,
        _ratio("postgres.one.new.ours", "postgres.one.new.by_hand"),
    ),
    _faster("guarded call, SQLite / by hand", 0.8, _ratio("sqlite.one.new.ours", "sqlite.one.new.by_hand")),
    _faster("guarded call, Redis / fastest peer", 1, _peer("redis.one.new.ours")),
    _faster("guarded call, PostgreSQL / fastest peer", 1, _peer("postgres.one.new.ours")),
    _faster("guarded call, SQLite normal / fastest peer", 1, _peer("sqlite.one.new.normal")),
    _faster("guarded call, Redis, 32 tasks / fastest peer", 4, _peer("redis.many.new.ours_tasks")),
    _faster("guarded call, Redis, 32 threads / fastest peer", 3, _peer("redis.many.new.ours_threads")),
    _faster("guarded call, PostgreSQL, 32 tasks / fastest peer", 5, _peer("postgres.many.new.ours_tasks")),
    _faster("guarded call, memory / fastest peer", 1, _peer("memory.one.new.ours")),
    _faster("replay from the local cache / fastest peer", 2, _peer("redis.cached.replay.ours")),
    _faster("PostgreSQL seen, 64 tasks / psycopg per call", 10, _ratio("postgres.tasks", "postgres.insert")),
    _faster("PostgreSQL fresh, batches / unnest by hand", 0.8, _ratio("postgres.fresh", "postgres.unnest")),
    _faster("SQLite seen, 64 threads / commit per call", 2, _ratio("sqlite.threads", "sqlite.insert")),
    _faster("SQLite seen, 64 tasks / commit per call", 5, _ratio("sqlite.tasks", "sqlite.insert")),
    _faster("SQLite fresh, batches / commit per call", 10, _ratio("sqlite.fresh", "sqlite.insert")),
    _smaller("Redis memory, compact", 12, "bytes/id", _bytes("redis.compact")),
    _smaller("Redis memory, seen", 115, "bytes/id", _bytes("redis.marks")),
    _smaller("PostgreSQL table and indexes, seen", 120, "bytes/id", _bytes("postgres.marks")),
    _smaller("Bloom at 0.1 %, memory", 1.9, "bytes/id", _bytes("memory.bloom")),
    _smaller("Bloom at 0.1 %, false positives", 0.12, "%", _false_positives),
    *(
        _smaller(f"{each.title}, cost of an id among 10 M / among 10 k", 1.5, "×", _growth(each.name))
        for each in GROWING
    ),
)
