"""Calls in memory take the way that calls take on every store: a claim with a lease, a heartbeat, a finish."""

import asyncio
import threading
import time

import pytest

from dupeproof import AsyncOnce, Once
from dupeproof.errors import Busy, ClaimLost
from dupeproof.stores.memory import AsyncMemoryStore, MemoryStore


def test_a_call_keeps_its_key_however_long_it_takes():
    once = Once("memory://", lease="200ms")
    started, go_on = threading.Event(), threading.Event()

    def slow():
        started.set()
        assert go_on.wait(10)
        return "first"

    worker = threading.Thread(target=once.run, args=("k", slow))
    worker.start()
    started.wait(10)
    time.sleep(0.6)
    with pytest.raises(Busy) as busy:
        once.run("k", lambda: "second")
    assert busy.value.retry_after > 0
    go_on.set()
    worker.join()
    assert once.run("k", lambda: "third") == "first"


def test_who_waits_is_woken_when_the_call_is_over():
    once = Once("memory://", on_busy="wait", wait="10s")
    started = threading.Event()

    def slow():
        started.set()
        time.sleep(0.05)
        return "first"

    worker = threading.Thread(target=once.run, args=("k", slow))
    worker.start()
    started.wait(10)
    assert once.run("k", lambda: "second") == "first"
    worker.join()


def test_who_waits_for_a_call_that_outlives_its_lease_does_not_ask_all_the_time(monkeypatch):
    asked = []
    claim = MemoryStore.claim
    monkeypatch.setattr(MemoryStore, "claim", lambda self, requests: asked.append(1) or claim(self, requests))
    once = Once("memory://", lease="200ms", on_busy="wait", wait="10s")
    started = threading.Event()

    def slow():
        started.set()
        time.sleep(0.6)
        return "first"

    worker = threading.Thread(target=once.run, args=("k", slow))
    worker.start()
    started.wait(10)
    assert once.run("k", lambda: "second") == "first"
    worker.join()
    assert len(asked) < 10


def test_a_call_whose_key_was_forgotten_has_lost_it():
    once = Once("memory://")

    def forgetting():
        assert once.forget("k")
        assert once.run("k", lambda: "other") == "other"
        return "own"

    with pytest.raises(ClaimLost):
        once.run("k", forgetting)
    assert once.run("k", lambda: "third") == "other"


def test_a_failed_call_counts_as_an_attempt():
    once = Once("memory://", max_attempts=2)
    with pytest.raises(ZeroDivisionError):
        once.run("k", lambda: 1 / 0)
    entry = once.get("k")
    assert (entry.state, entry.attempts, entry.error) == ("failed", 1, "ZeroDivisionError")
    assert once.attempt("k", lambda: 7).attempt == 2


def test_an_interrupted_call_leaves_its_key_to_the_lease():
    once = Once("memory://", lease="200ms")

    def interrupted():
        raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        once.run("k", interrupted)
    with pytest.raises(Busy):
        once.run("k", lambda: 1)
    time.sleep(0.25)
    assert once.attempt("k", lambda: 2).attempt == 2


async def test_a_cancelled_call_leaves_its_key_to_the_lease():
    once = AsyncOnce("memory://", lease="200ms")
    task = asyncio.create_task(once.run("k", asyncio.sleep, 10))
    await asyncio.sleep(0.01)
    task.cancel()
    with pytest.raises(asyncio.CancelledError):
        await task
    with pytest.raises(Busy):
        await once.run("k", asyncio.sleep, 10)


def test_a_value_that_cannot_be_stored_is_done_all_the_same():
    once = Once("memory://")
    assert callable(once.run("k", lambda: print))
    assert once.get("k").state == "done"


class Recorded(MemoryStore):
    """Writes down which verbs it is called with."""

    def __init__(self):
        super().__init__()
        self.verbs = []

    def claim(self, requests):
        self.verbs.append("claim")
        return super().claim(requests)

    def renew(self, changes):
        self.verbs.append("renew")
        return super().renew(changes)

    def finish(self, changes):
        self.verbs.append("finish")
        return super().finish(changes)

    def mark(self, marks):
        self.verbs.append("mark")
        return super().mark(marks)


def test_a_call_is_a_claim_and_a_finish_and_a_mark_is_a_mark():
    store = Recorded()
    once = Once(store)
    once.run("k", lambda: 1)
    once.seen("k")
    assert store.verbs == ["claim", "finish", "mark"]


async def test_the_same_for_tasks():
    store = Recorded()
    once = AsyncOnce(AsyncMemoryStore(store))
    await once.run("k", asyncio.sleep, 0)
    await once.seen("k")
    assert store.verbs == ["claim", "finish", "mark"]


def test_a_long_call_is_renewed():
    store = Recorded()
    Once(store, lease="150ms").run("k", time.sleep, 0.4)
    assert store.verbs.count("renew") >= 2
    assert store.verbs[0] == "claim"
    assert store.verbs[-1] == "finish"


def test_a_short_lease_is_renewed_in_time_after_many_calls_with_a_long_one():
    store = Recorded()
    once = Once(store)
    for number in range(100):
        once.run(number, lambda: 1)

    @once(key="n", lease="150ms")
    def slow(n: int) -> int:
        time.sleep(0.4)
        return n

    assert slow(1) == 1
    assert store.verbs.count("renew") >= 2


def test_an_idle_guard_renews_again_when_a_call_comes():
    store = Recorded()
    once = Once(store, lease="150ms")
    once.run("k1", lambda: 1)
    time.sleep(0.3)
    once.run("k2", time.sleep, 0.4)
    assert store.verbs.count("renew") >= 2
