"""The whole benchmark, store after store: start it, race, weigh, stop it."""

from collections.abc import Callable, Mapping, Sequence
from functools import partial

from msgspec import Struct

from dupeproof.errors import StoreUnavailable
from dupeproof_lab.bench import growth
from dupeproof_lab.bench.affinity import Pin, cores, pinned
from dupeproof_lab.bench.benchmarks import HEATS
from dupeproof_lab.bench.benchmarks.filters import false_positives
from dupeproof_lab.bench.environments.servers import started
from dupeproof_lab.bench.goals import GOALS, Results, Verdict, judge
from dupeproof_lab.bench.growth import Growth
from dupeproof_lab.bench.machine import Machine, look
from dupeproof_lab.bench.model import Plan, Row, Store, Unavailable
from dupeproof_lab.bench.published import Compared, compared
from dupeproof_lab.bench.rounds import race, steps
from dupeproof_lab.bench.size import LAYOUTS, Weight, weigh_all

Progress = Callable[[str], None]
"""Told what is under way, once per step."""


class Report(Struct, frozen=True, kw_only=True):
    """All there is to show."""

    quick: bool
    pin: Pin
    rounds: int
    machine: Machine
    servers: dict[str, str]
    """Versions, by store."""
    results: Results
    verdicts: list[Verdict]
    published: list[Compared]


class Request(Struct, frozen=True, kw_only=True):
    """What was asked for."""

    stores: Sequence[Store]
    plan: Plan
    pin: Pin
    given: Mapping[Store, str]
    quick: bool = False
    scaling: bool = False


def run(request: Request, progress: Progress) -> Report:
    client, server = cores(request.pin)
    machine = look()
    rows: list[Row] = []
    weights: list[Weight] = []
    growths: list[Growth] = []
    servers: dict[str, str] = {}
    wrong: float | str | None = None
    with pinned(client):
        for store in request.stores:
            _run_store(store, request, server, rows, weights, servers, progress)
        if "memory" in request.stores:
            progress("Bloom, false positives")
            wrong = _false_positives(request.plan)
        growths += [
            growth.grow(growing, request.plan, server, lambda: progress("How stores grow"))
            for growing in _growing(request)
        ]
    results = Results(rows=rows, weights=weights, growths=growths, false_positives=wrong)
    return Report(
        quick=request.quick,
        pin=request.pin,
        rounds=request.plan.rounds,
        machine=machine,
        servers=servers,
        results=results,
        verdicts=[judge(goal, results) for goal in GOALS],
        published=compared(rows, weights),
    )


def total(request: Request) -> int:
    """How many steps there are, for a bar."""
    races = sum(steps(benchmark, request.plan) for store in request.stores for benchmark in HEATS[store])
    weighings = sum(layout.store in request.stores for layout in LAYOUTS)
    points = len(_growing(request)) * len(request.plan.sizes)
    return len(request.stores) + races + weighings + points + ("memory" in request.stores)


def _growing(request: Request) -> list[growth.Growing]:
    return [each for each in growth.GROWING if request.scaling and each.store in request.stores]


def _run_store(
    store: Store,
    request: Request,
    server: set[int],
    rows: list[Row],
    weights: list[Weight],
    servers: dict[str, str],
    progress: Progress,
) -> None:
    try:
        progress(f"{store}, starting")
        with started(store, request.given.get(store), server) as environment:
            if environment.version is not None:
                servers[store] = environment.version
            for benchmark in HEATS[store]:
                rows += race(benchmark, environment, request.plan, partial(progress, benchmark.title))
            weights += weigh_all(store, environment, request.plan, lambda: progress(f"{store}, bytes"))
    except Unavailable as exc:
        if store in request.given:
            raise StoreUnavailable(f"the {store} that was given cannot be measured: {exc}") from exc
        rows += _absent(store, str(exc))
        weights += [
            Weight(layout=layout.name, store=store, title=layout.title, reason=str(exc))
            for layout in LAYOUTS
            if layout.store == store
        ]


def _absent(store: Store, reason: str) -> list[Row]:
    """A store that cannot be had is in the table all the same."""
    return [
        Row(
            benchmark=benchmark.title,
            store=store,
            name=candidate.name,
            who=candidate.who,
            what=candidate.what,
            shape=candidate.shape.title,
            layout=candidate.layout,
            durability="",
            reason=reason,
        )
        for benchmark in HEATS[store]
        for candidate in benchmark.candidates
    ]


def _false_positives(plan: Plan) -> float | str:
    try:
        return false_positives(plan.weighed)
    except Unavailable as exc:
        return str(exc)
