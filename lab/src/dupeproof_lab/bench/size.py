"""How many bytes an id takes: fill a store, look at its size, divide."""

import gc
import math
import subprocess
import sys
from collections.abc import Callable
from functools import partial
from time import monotonic

import msgspec
from msgspec import Struct

from dupeproof.cli.output import without_secrets
from dupeproof.errors import ConfigError
from dupeproof_lab.bench.benchmarks import candidate
from dupeproof_lab.bench.environments.base import Environment
from dupeproof_lab.bench.environments.embedded import MemorySite
from dupeproof_lab.bench.model import Plan, Store, Unavailable, make_ids
from dupeproof_lab.bench.shapes import BATCH, opened

_RESIDENT = 250_000
"""Ids of which a process shows how much memory they take, and not how much more it asked for."""


class Layout(Struct, frozen=True, kw_only=True):
    """One form of keeping ids, and the candidate that fills a store with it fastest."""

    name: str
    store: Store
    title: str
    filler: str
    share: float = 1.0
    """Of the number of ids that are weighed."""
    least: int = 0
    """Ids without which there is nothing to see."""
    whole: bool = False
    """It makes room for a number of ids beforehand, so it gets them all, however long that takes."""


class Weight(Struct, frozen=True, kw_only=True):
    layout: str
    store: Store
    title: str
    count: int = 0
    bytes_per_id: float | None = None
    reason: str | None = None


LAYOUTS: tuple[Layout, ...] = (
    Layout(name="memory.set", store="memory", title="set of str", filler="memory.loop", least=_RESIDENT),
    Layout(
        name="memory.marks", store="memory", title="dupeproof, memory", filler="memory.fresh", least=_RESIDENT
    ),
    Layout(
        name="memory.bloom",
        store="memory",
        title="dupeproof, Bloom",
        filler="memory.bloom",
        least=1_000_000,
        whole=True,
    ),
    Layout(name="sqlite.table", store="sqlite", title="text key and expiry", filler="sqlite.executemany"),
    Layout(name="sqlite.marks", store="sqlite", title="dupeproof, SQLite", filler="sqlite.fresh"),
    Layout(name="redis.key", store="redis", title="SET NX EX", filler="redis.pipeline"),
    Layout(name="redis.marks", store="redis", title="dupeproof, Redis", filler="redis.fresh"),
    Layout(
        name="redis.compact", store="redis", title="dupeproof, compact", filler="redis.compact", whole=True
    ),
    Layout(
        name="redis.bloom", store="redis", title="dupeproof, Redis Bloom", filler="redis.bloom", whole=True
    ),
    Layout(name="postgres.textbook", store="postgres", title="textbook table", filler="postgres.textbook"),
    Layout(name="postgres.lean", store="postgres", title="uuid key and expiry", filler="postgres.unnest"),
    Layout(name="postgres.marks", store="postgres", title="dupeproof, PostgreSQL", filler="postgres.fresh"),
    Layout(
        name="redis.records",
        store="redis",
        title="dupeproof, result of a call on Redis",
        filler="redis.many.new.ours_tasks",
        share=0.1,
    ),
    Layout(
        name="postgres.records",
        store="postgres",
        title="dupeproof, result of a call on PostgreSQL",
        filler="postgres.many.new.ours_tasks",
        share=0.1,
    ),
)


def weigh_all(store: Store, environment: Environment, plan: Plan, step: Callable[[], object]) -> list[Weight]:
    weights = []
    for layout in LAYOUTS:
        if layout.store == store:
            weights.append(_weigh(layout, environment, plan))
            step()
    return weights


def _weigh(layout: Layout, environment: Environment, plan: Plan) -> Weight:
    weight = partial(Weight, layout=layout.name, store=layout.store, title=layout.title)
    wanted = max(layout.least, int(plan.weighed * layout.share))
    seconds = math.inf if layout.whole else plan.weighing_seconds
    try:
        if layout.store == "memory":
            count, size = _in_a_process_of_its_own(layout.filler, wanted, seconds)
        else:
            count, size = fill(layout.filler, environment, wanted, seconds)
    except (Unavailable, ConfigError) as exc:
        return weight(reason=str(exc))
    except Exception as exc:  # noqa: BLE001 - the others are weighed all the same, and this one says why not
        return weight(reason=f"failed: {type(exc).__name__}: {without_secrets(str(exc))[:200]}")
    return weight(count=count, bytes_per_id=size / count)


def _in_a_process_of_its_own(filler: str, wanted: int, seconds: float) -> tuple[int, int]:
    """What this process has allocated and freed before would hide what the ids take."""
    command = [sys.executable, "-m", "dupeproof_lab.bench.size", filler, str(wanted), str(seconds)]
    done = subprocess.run(command, capture_output=True, check=False)  # noqa: S603 - our own module
    if done.returncode != 0:
        raise Unavailable(done.stderr.decode().strip().splitlines()[-1])
    return msgspec.json.decode(done.stdout, type=tuple[int, int])


def fill(filler: str, environment: Environment, wanted: int, seconds: float) -> tuple[int, int]:
    """How many ids went in before the time was over, and the bytes they take."""
    _put(filler, environment, BATCH, 0)  # what the first use alone costs is not the ids'
    environment.clean()
    before = _settled(environment)
    count, after = _put(filler, environment, wanted, seconds)
    size = (_settled(environment) if after is None else after) - before
    if size <= 0:
        raise Unavailable(f"{count:,} ids are too few to weigh")
    return count, size


def _put(filler: str, environment: Environment, wanted: int, seconds: float) -> tuple[int, int | None]:
    """The number of ids, and the size with them where they are gone with the candidate."""
    chosen = candidate(filler)
    environment.expected = wanted
    deadline = monotonic() + seconds
    count = 0
    with opened(chosen.shape, chosen.make(environment)) as feed:
        while count < wanted and (count == 0 or monotonic() < deadline):
            more = min(BATCH, wanted - count)
            feed(make_ids(more), None)
            count += more
        return count, None if environment.store in _WEIGHED_AT_REST else _settled(environment)


_WEIGHED_AT_REST = ("sqlite", "postgres")
"""Their files settle when the candidate has gone; elsewhere the ids may go with it."""


def _settled(environment: Environment) -> int:
    gc.collect()
    return environment.size()


if __name__ == "__main__":
    try:
        weighed = fill(sys.argv[1], MemorySite(), int(sys.argv[2]), float(sys.argv[3]))
    except Unavailable as exc:
        sys.exit(str(exc))
    sys.stdout.buffer.write(msgspec.json.encode(weighed))
