"""The filters: much less memory, a stated error or none."""

from collections.abc import Iterator
from contextlib import closing, contextmanager
from functools import partial
from importlib import import_module
from typing import Any

import msgspec

from dupeproof.errors import ConfigError
from dupeproof_lab.bench.environments.base import Environment
from dupeproof_lab.bench.model import OURS, WINDOW, Benchmark, Candidate, Unavailable, make_ids
from dupeproof_lab.bench.shapes import BATCHES, Operation

ERROR_RATE = 0.001
_ASKED = 500_000
"""Strangers a filter is asked for; at 0.1 % that finds 500, give or take 22."""


def filter_named(name: str) -> Any:
    """A class of `dupeproof.filters`, or why there is none."""
    try:
        return getattr(import_module("dupeproof.filters"), name)
    except (ModuleNotFoundError, AttributeError) as exc:
        raise Unavailable(f"this version of dupeproof has no {name}") from exc
    except ConfigError as exc:  # says what to install
        raise Unavailable(str(exc)) from exc


@contextmanager
def bloom(environment: Environment) -> Iterator[Operation]:
    yield filter_named("Bloom")(environment.expected, ERROR_RATE).add_many


@contextmanager
def redis_bloom(environment: Environment) -> Iterator[Operation]:
    kind = filter_named("RedisBloom")
    name = (
        f"bench-{environment.expected}"  # one of that name for another number would be refused, and rightly
    )
    with closing(kind(environment.url, name, environment.expected, ERROR_RATE, accept_errors=True)) as known:
        try:
            yield known.fresh
        finally:
            known.clear()  # nothing else of ours stays on a server that was given


@contextmanager
def compact(environment: Environment) -> Iterator[Operation]:
    kind = filter_named("CompactSeen")
    with closing(
        kind(environment.url, namespace="bench", window=WINDOW, expected=environment.expected)
    ) as known:
        yield known.fresh


def false_positives(count: int) -> float:
    """The share of strangers a full Bloom filter takes for known."""
    known = filter_named("Bloom")(count, ERROR_RATE)
    known.add_many(make_ids(count))
    taken: int = sum(known.might_have_many(make_ids(_ASKED)))
    return taken / _ASKED


_filter = partial(Candidate, who=OURS, shape=BATCHES)
FILTERS: dict[str, tuple[Candidate, ...]] = {
    "memory": (
        _filter(name="memory.bloom", what="Bloom, 0.1 % error", make=bloom, fresh=sum, layout="memory.bloom"),
    ),
    "redis": (
        _filter(
            name="redis.compact", what="CompactSeen, exact", make=compact, fresh=len, layout="redis.compact"
        ),
        _filter(
            name="redis.bloom",
            what="RedisBloom, 0.1 % error",
            make=redis_bloom,
            fresh=len,
            layout="redis.bloom",
        ),
    ),
}


def with_filters(benchmark: Benchmark) -> Benchmark:
    return msgspec.structs.replace(
        benchmark, candidates=benchmark.candidates + FILTERS.get(benchmark.store, ())
    )
