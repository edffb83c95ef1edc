"""Marks in memory do not pile up: whoever makes them, and however, those that have expired go."""

import os
import signal

import pytest

from dupeproof import AsyncOnce, Once
from dupeproof.stores.memory import AsyncMemoryStore, MemoryStore

MOST = 10_000
"""What the store keeps before it looks for the first time for what has expired."""


class Clock:
    def __init__(self):
        self.now = 1_000_000

    def __call__(self):
        return self.now


def _kept(store):
    stats = store.stats()
    return stats.marks + stats.expired


@pytest.fixture
def clock():
    return Clock()


@pytest.fixture
def store(clock):
    return MemoryStore(clock=clock)


def _mark_many(clock, mark, count=25_000):
    """A hundred in each of many windows, of ten seconds."""
    for number in range(count):
        mark(number)
        clock.now += 100


@pytest.mark.parametrize("key", [str, int, "ä{}".format], ids=["text", "numbers", "not ASCII"])
def test_expired_marks_go(clock, store, key):
    once = Once(store, window="10s")
    _mark_many(clock, lambda number: once.seen(key(number)))
    assert _kept(store) <= MOST


def test_the_same_for_batches_and_with_listeners(clock, store):
    once = Once(store, window="10s", events=[lambda event: None])
    _mark_many(clock, lambda number: once.fresh([f"{number}"]))
    assert _kept(store) <= MOST
    _mark_many(clock, lambda number: once.seen(f"again-{number}"))
    assert _kept(store) <= MOST


async def test_the_same_for_tasks(clock, store):
    once = AsyncOnce(AsyncMemoryStore(store), window="10s")
    for number in range(25_000):
        await once.seen(f"{number}")
        clock.now += 100
    assert _kept(store) <= MOST


def test_a_guard_with_a_longer_window_does_not_keep_what_others_made(clock, store):
    Once(store, window="24h").seen("long")
    once = Once(store, window="10s")
    _mark_many(clock, lambda number: once.seen(f"{number}"))
    assert _kept(store) <= MOST
    assert Once(store).seen("long")


def test_a_child_forked_while_a_thread_is_in_the_store_can_use_it():
    store = MemoryStore()
    once = Once(store)
    with store._lock, store.copies()._lock:  # as a thread would that the child does not have
        child = os.fork()
        if child == 0:
            signal.alarm(5)
            fresh = not once.seen("k", meta="m") and once.run("k", lambda: 7) == 7
            store.copies().clear([b"k" * 16])
            os._exit(0 if fresh else 1)
    assert os.waitpid(child, 0)[1] == 0
