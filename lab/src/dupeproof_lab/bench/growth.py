"""What an id costs as a store grows: the big one beside a small one, in turn, so that the machine's moods cancel out."""

import gc
from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager
from statistics import median
from time import monotonic

from msgspec import Struct

from dupeproof.cli.output import without_secrets
from dupeproof.errors import ConfigError
from dupeproof_lab.bench.benchmarks import candidate
from dupeproof_lab.bench.environments.base import Environment
from dupeproof_lab.bench.environments.servers import started
from dupeproof_lab.bench.model import Plan, Store, Unavailable, make_ids
from dupeproof_lab.bench.shapes import BATCH, Feed, opened

_PROBE = 2 * BATCH


class Growing(Struct, frozen=True, kw_only=True):
    name: str
    store: Store
    title: str


GROWING: tuple[Growing, ...] = (
    Growing(name="memory.fresh", store="memory", title="memory"),
    Growing(name="memory.bloom", store="memory", title="Bloom"),
    Growing(name="sqlite.fresh", store="sqlite", title="SQLite"),
    Growing(name="redis.fresh", store="redis", title="Redis"),
    Growing(name="redis.compact", store="redis", title="Redis, compact"),
    Growing(name="redis.bloom", store="redis", title="Redis Bloom"),
    Growing(name="postgres.fresh", store="postgres", title="PostgreSQL"),
)


class Point(Struct, frozen=True, kw_only=True):
    size: int
    seconds_per_id: float
    small_seconds_per_id: float
    ratios: list[float]
    """Of the big store to the small one, one figure per round."""


class Growth(Struct, frozen=True, kw_only=True):
    name: str
    store: Store
    title: str
    points: list[Point] = []
    reason: str | None = None
    """Why there is nothing, or why it ends before the largest size."""


def grow(growing: Growing, plan: Plan, cores: set[int], step: Callable[[], object]) -> Growth:
    points: list[Point] = []
    reason = None
    try:
        with (
            started(growing.store, None, cores) as big,
            started(growing.store, None, cores) as small,
            _opened(growing.name, big, plan) as feed,
        ):
            deadline = monotonic() + plan.scaling_seconds
            held = 0
            for size in plan.sizes:
                while held < size and monotonic() < deadline:
                    feed(make_ids(min(10 * BATCH, size - held)), None)
                    held += min(10 * BATCH, size - held)
                if held < size:
                    reason = f"{held:,} ids after {plan.scaling_seconds:.0f} s"
                    break
                points.append(_compare(growing.name, feed, small, plan, size))
                held += plan.rounds * _PROBE
                step()
    except (Unavailable, ConfigError) as exc:
        reason = str(exc)
    except Exception as exc:  # noqa: BLE001 - the other stores grow on, and this one says why not
        reason = f"failed: {type(exc).__name__}: {without_secrets(str(exc))[:200]}"
    return Growth(name=growing.name, store=growing.store, title=growing.title, points=points, reason=reason)


@contextmanager
def _opened(name: str, environment: Environment, plan: Plan) -> Iterator[Feed]:
    chosen = candidate(name)
    environment.expected = plan.sizes[-1] + len(plan.sizes) * plan.rounds * _PROBE
    environment.clean()
    with opened(chosen.shape, chosen.make(environment)) as feed:
        yield feed


def _compare(name: str, big: Feed, environment: Environment, plan: Plan, size: int) -> Point:
    """The next ids of the big store beside those of a small one that is made anew, a round each."""
    costs: list[tuple[float, float]] = []
    with ExitStack() as stack:
        small = stack.enter_context(_opened(name, environment, plan))
        small(make_ids(plan.sizes[0]), None)
        for turn in range(plan.rounds):
            first, second = make_ids(_PROBE), make_ids(_PROBE)
            gc.collect()
            if turn % 2:
                at_small = small(second, None)
                at_big = big(first, None)
            else:
                at_big = big(first, None)
                at_small = small(second, None)
            costs.append((at_big / _PROBE, at_small / _PROBE))
    return Point(
        size=size,
        seconds_per_id=median(cost for cost, _ in costs),
        small_seconds_per_id=median(cost for _, cost in costs),
        ratios=[cost / other for cost, other in costs],
    )
