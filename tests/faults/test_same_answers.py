"""Every store gives the answers the memory store gives, step by step, to random sequences of verbs."""

import contextlib
import os
import time

import pytest

from dupeproof.stores import open_store
from support import verbs
from support.stores import on

SECONDS = float(os.environ.get("SAME_ANSWERS_SECONDS", "6"))
LENGTH = 30


@on("sqlite", "redis", "redis_cluster", "postgres")
def test_a_store_answers_as_the_memory_store_does(url):
    """The plugin that shuffles the tests seeds `random` too, and prints the seed."""
    memory = open_store("memory://")
    until = time.monotonic() + SECONDS
    sequences = 0
    with contextlib.closing(open_store(url)) as other:
        while time.monotonic() < until:
            names = verbs.Names(os.urandom(12))
            steps = []
            for _ in range(LENGTH):
                steps.append(verbs.step())
                expected, given = (verbs.apply(store, names, steps[-1]) for store in (memory, other))
                if given != expected:
                    history = "\n".join(map(str, steps))
                    pytest.fail(
                        f"memory answers {expected},\nthe store     {given}\nto the last of\n{history}"
                    )
            sequences += 1
    assert sequences > 10
