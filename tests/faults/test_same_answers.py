"""Every store gives the answers the memory store gives, step by step, to random sequences of verbs."""

import os

import pytest
from hypothesis import HealthCheck, given, settings

from dupeproof.stores import open_store
from support import verbs
from support.stores import on

OTHERS = ("sqlite", "redis", "postgres")


@pytest.fixture
def stores(request, url):
    memory, other = open_store("memory://"), open_store(url)
    yield memory, other
    other.close()


@on(*OTHERS)
@settings(max_examples=120, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(steps=verbs.steps)
def test_a_store_answers_as_the_memory_store_does(stores, steps):
    memory, other = stores
    names = verbs.Names(os.urandom(12))
    for number, batch in enumerate(steps):
        expected, given_ = (verbs.apply(store, names, batch) for store in (memory, other))
        assert given_ == expected, f"step {number}: {batch}"
