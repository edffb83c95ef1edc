"""All candidates, as tables: who does what how, and who is compared with whom."""

from dupeproof_lab.bench.benchmarks.filters import with_filters
from dupeproof_lab.bench.benchmarks.guards import guard_heats
from dupeproof_lab.bench.benchmarks.marks import MEMORY, POSTGRES, REDIS, SQLITE
from dupeproof_lab.bench.model import STORES, Benchmark, Candidate, Store

MARK_HEATS: dict[Store, Benchmark] = {
    "memory": MEMORY,
    "sqlite": SQLITE,
    "redis": REDIS,
    "postgres": POSTGRES,
}
HEATS: dict[Store, list[Benchmark]] = {
    store: [with_filters(MARK_HEATS[store]), *guard_heats(store)] for store in STORES
}


def candidate(name: str) -> Candidate:
    return next(
        each
        for benchmarks in HEATS.values()
        for benchmark in benchmarks
        for each in benchmark.candidates
        if each.name == name
    )
