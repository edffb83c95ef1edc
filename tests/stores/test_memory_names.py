"""Marks in memory do not pile up: whoever makes them, and however, those that have expired go."""

import pytest

from dupeproof import AsyncOnce, Once
from dupeproof.stores.memory import AsyncMemoryStore, MemoryStore


class Clock:
    def __init__(self):
        self.now = 1_000_000

    def __call__(self):
        return self.now


def _kept(store):
    stats = store.stats()
    return stats.marks + stats.expired


def _peak(store, clock, mark):
    """The most that were kept while a hundred came in each of many windows, of ten seconds."""
    peak = 0
    for number in range(1_500):
        mark(number)
        clock.now += 100
        peak = max(peak, _kept(store))
    return peak


@pytest.mark.parametrize("key", [str, int, "ä{}".format], ids=["text", "numbers", "not ASCII"])
def test_one_and_a_half_windows_of_marks_are_kept(key):
    clock = Clock()
    store = MemoryStore(clock=clock)
    once = Once(store, window="10s")
    assert _peak(store, clock, lambda number: once.seen(key(number))) <= 155


def test_the_same_for_batches_and_with_listeners():
    clock = Clock()
    store = MemoryStore(clock=clock)
    once = Once(store, window="10s", events=[lambda event: None])
    assert _peak(store, clock, lambda number: once.fresh([f"{number}"])) <= 155
    assert _peak(store, clock, lambda number: once.seen(f"again-{number}")) <= 155


async def test_the_same_for_tasks():
    clock = Clock()
    store = MemoryStore(clock=clock)
    once = AsyncOnce(AsyncMemoryStore(store), window="10s")
    for number in range(1_500):
        await once.seen(f"{number}")
        clock.now += 100
    assert _kept(store) <= 155


def test_a_guard_with_a_longer_window_does_not_keep_what_others_made():
    clock = Clock()
    store = MemoryStore(clock=clock)
    Once(store, window="24h").seen("long")
    once = Once(store, window="10s")
    assert _peak(store, clock, lambda number: once.seen(f"{number}")) <= 156
    assert Once(store).seen("long")
