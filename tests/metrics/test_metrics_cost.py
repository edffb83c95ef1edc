"""What counting costs a guarded call in memory, where there is least to hide it behind. Printed, and held under a limit.

Blocks with and without metrics take turns, and the processor's time counts, not that on the wall; so neighbours disturb
both alike, and the median of many ratios is steady where each of them is not.
"""

import gc
import itertools
import statistics
import time

import pytest
from prometheus_client import CollectorRegistry

from dupeproof import Once
from dupeproof.metrics.prometheus import PrometheusListener

LIMIT = 1.05
CALLS = 500
ROUNDS = 400
numbers = itertools.count()


def seconds_of(once, keys):
    began = time.thread_time_ns()
    for key in keys:
        once.run(key, abs, -1)
    return time.thread_time_ns() - began


def new_keys():
    return [f"k{next(numbers)}" for _ in range(CALLS)]


def one_key():
    return ["same"] * CALLS


@pytest.mark.parametrize("keys", [new_keys, one_key], ids=["new", "replayed"])
def test_counting_costs_less_than_a_twentieth_of_a_call(keys):
    registry = CollectorRegistry()
    ratios = []
    with Once("memory://") as plain, Once("memory://", events=[PrometheusListener(registry)]) as counted:
        for once in (plain, counted):
            once.run("same", abs, -1)
        gc.collect()
        gc.disable()
        try:
            for number in range(ROUNDS):
                chosen, taken = keys(), {}
                for once in (plain, counted) if number % 2 else (counted, plain):
                    taken[once] = seconds_of(once, chosen)
                ratios.append(taken[counted] / taken[plain])
        finally:
            gc.enable()
    low, median, high = statistics.quantiles(ratios, n=4)
    print(
        f"with metrics a call takes {median:.3f} times as long (half of {ROUNDS} rounds: {low:.3f} to {high:.3f})"
    )
    kind = "won" if keys is new_keys else "replayed"
    labels = {"kind": kind, "namespace": "default", "name": ""}
    assert registry.get_sample_value("dupeproof_events_total", labels) >= CALLS * ROUNDS
    assert median < LIMIT
