"""The filters: much less memory, a stated error or none."""

from collections.abc import Iterator
from contextlib import closing, contextmanager
from functools import partial
from importlib import import_module
from typing import Any

import msgspec

from dupeproof.cli.bench.model import OURS, WINDOW, Contender, Heat, Unavailable, make_ids
from dupeproof.cli.bench.shapes import BATCHES, Operation
from dupeproof.cli.bench.sites.base import Site

ERROR_RATE = 0.001
_ASKED = 500_000
"""Strangers a filter is asked for; at 0.1 % that finds 500, give or take 22."""


def filter_named(name: str) -> Any:
    """A class of `dupeproof.filters`, or why there is none."""
    try:
        return getattr(import_module("dupeproof.filters"), name)
    except ModuleNotFoundError as exc:
        if exc.name == "dupeproof.filters":
            raise Unavailable("this version of dupeproof has no filters") from exc
        raise Unavailable(f'{exc.name} is not installed; run: pip install "dupeproof[all]"') from exc


@contextmanager
def bloom(site: Site) -> Iterator[Operation]:
    known = filter_named("Bloom")(site.expected, ERROR_RATE)

    def fresh(ids: list[str]) -> list[str]:
        answers = known.might_have_many(ids)
        known.add_many(ids)
        return [each for each, seen in zip(ids, answers, strict=True) if not seen]

    yield fresh


@contextmanager
def redis_bloom(site: Site) -> Iterator[Operation]:
    kind = filter_named("RedisBloom")
    with closing(kind(site.url, "bench", site.expected, ERROR_RATE, accept_errors=True)) as known:
        yield known.fresh


@contextmanager
def compact(site: Site) -> Iterator[Operation]:
    kind = filter_named("CompactSeen")
    with closing(kind(site.url, namespace="bench", window=WINDOW, expected=site.expected)) as known:
        yield known.fresh


def false_positives(count: int) -> float:
    """The share of strangers a full Bloom filter takes for known."""
    known = filter_named("Bloom")(count, ERROR_RATE)
    known.add_many(make_ids(count))
    return sum(known.might_have_many(make_ids(_ASKED))) / _ASKED


_filter = partial(Contender, who=OURS, shape=BATCHES, fresh=len)
FILTERS: dict[str, tuple[Contender, ...]] = {
    "memory": (_filter(name="memory.bloom", what="Bloom, 0.1 % error", make=bloom, layout="memory.bloom"),),
    "redis": (
        _filter(name="redis.compact", what="CompactSeen, exact", make=compact, layout="redis.compact"),
        _filter(name="redis.bloom", what="RedisBloom, 0.1 % error", make=redis_bloom, layout="redis.bloom"),
    ),
}


def with_filters(heat: Heat) -> Heat:
    return msgspec.structs.replace(heat, contenders=heat.contenders + FILTERS.get(heat.store, ()))
