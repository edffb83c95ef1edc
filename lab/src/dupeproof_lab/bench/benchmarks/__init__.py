"""All contenders, as tables: who does what how, and who is compared with whom."""

from dupeproof_lab.bench.benchmarks.filters import with_filters
from dupeproof_lab.bench.benchmarks.guards import guard_heats
from dupeproof_lab.bench.benchmarks.marks import MEMORY, POSTGRES, REDIS, SQLITE
from dupeproof_lab.bench.model import STORES, Contender, Heat, Store

MARK_HEATS: dict[Store, Heat] = {
    "memory": MEMORY,
    "sqlite": SQLITE,
    "redis": REDIS,
    "postgres": POSTGRES,
}
HEATS: dict[Store, list[Heat]] = {
    store: [with_filters(MARK_HEATS[store]), *guard_heats(store)] for store in STORES
}


def contender(name: str) -> Contender:
    return next(
        each for heats in HEATS.values() for heat in heats for each in heat.contenders if each.name == name
    )
