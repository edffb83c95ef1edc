"""A benchmark of next to nothing: everything runs, nothing is measured."""

import msgspec

from dupeproof_lab.bench.goals import Results, Verdict
from dupeproof_lab.bench.machine import look
from dupeproof_lab.bench.model import Benchmark, Plan, Row
from dupeproof_lab.bench.run import Report, Request, run
from dupeproof_lab.bench.shapes import EACH

TINY = Plan(
    rounds=2,
    seconds=0.0001,
    most=100,
    same_count=100,
    weighed=100,
    weighing_seconds=0.01,
    sizes=(10, 20),
    scaling_seconds=5,
)


def run_tiny(*stores, given=None, scaling=False, told=None):
    request = Request(stores=stores, plan=TINY, pin="none", given=given or {}, scaling=scaling)
    return run(request, (lambda _: None) if told is None else told.append)


def heat_of(*candidates, **how):
    return Benchmark(title="a benchmark", store="memory", candidates=candidates, **how)


def row_of(name, *speeds, who="dupeproof", benchmark="a benchmark", reason=None):
    return Row(
        benchmark=benchmark,
        store="memory",
        name=name,
        who=who,
        what="",
        shape=EACH.title,
        layout=None,
        durability="none",
        speeds=list(speeds),
        reason=reason,
    )


def results_of(*rows, **more):
    nothing = Results(rows=list(rows), weights=[], growths=[], false_positives=None)
    return msgspec.structs.replace(nothing, **more)


def report_of(*rows, verdicts=()):
    return Report(
        quick=True,
        pin="none",
        rounds=2,
        machine=msgspec.structs.replace(look(), peers={"idemkit": None}),
        servers={},
        results=results_of(*rows),
        verdicts=list(verdicts),
        published=[],
    )


def verdict_of(met):
    return Verdict(title="a goal", bound="at least", target=2, unit="×", median=1, low=1, high=1, met=met)
