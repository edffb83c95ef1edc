"""In memory a running call owns its key by itself: for as long as it runs, and by the lease when it vanished."""

import asyncio
import os
import signal
import threading
import time

import pytest

from dupeproof import AsyncOnce, Once
from dupeproof.core.records import Terms
from dupeproof.core.states import State
from dupeproof.errors import Busy, ClaimLost
from dupeproof.stores.memory import MemoryStore

KEY = b"k" * 16
TERMS = Terms(namespace="default", lease=1_000, window=60_000)


class Clock:
    def __init__(self):
        self.now = 1_000_000

    def __call__(self):
        return self.now


def test_a_call_keeps_its_key_however_long_it_takes():
    once = Once("memory://", lease="50ms")
    started, go_on = threading.Event(), threading.Event()

    def slow():
        started.set()
        assert go_on.wait(10)
        return "first"

    worker = threading.Thread(target=once.run, args=("k", slow))
    worker.start()
    started.wait(10)
    time.sleep(0.2)
    with pytest.raises(Busy) as busy:
        once.run("k", lambda: "second")
    assert busy.value.retry_after == 0
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
    once = Once("memory://", lease="10ms", on_busy="wait", wait="10s")
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
    assert (entry.state, entry.attempt, entry.error) == ("failed", 1, "ZeroDivisionError")
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


def test_an_owner_that_vanished_without_a_word_leaves_the_key_to_the_lease():
    clock = Clock()
    store = MemoryStore(clock=clock)
    owner = store.begin(KEY, TERMS, b"")
    clock.now += 5_000
    assert store.get([KEY])[0].record.situation(clock.now) is State.RUNNING
    del owner
    assert store.get([KEY])[0].record.situation(clock.now) is State.ABANDONED
    assert store.begin(KEY, TERMS, b"") is None


def test_in_a_forked_child_the_lease_decides():
    clock = Clock()
    store = MemoryStore(clock=clock)
    owner = store.begin(KEY, TERMS, b"")
    clock.now += 5_000
    child = os.fork()
    if child == 0:
        [found] = store.get([KEY])
        os._exit(0 if found.record.situation(clock.now) is State.ABANDONED else 1)
    assert os.waitpid(child, 0)[1] == 0
    assert owner is not None


def test_a_child_forked_while_a_thread_is_in_the_store_can_use_it():
    store = MemoryStore()
    once = Once(store)
    names = store.names("default")
    with store._lock, names._lock, store.copies()._lock:  # as a thread would that the child does not have
        child = os.fork()
        if child == 0:
            signal.alarm(5)
            fresh = not once.seen("k", meta="m") and once.run("k", lambda: 7) == 7
            store.copies().clear([KEY])
            os._exit(0 if fresh else 1)
    assert os.waitpid(child, 0)[1] == 0


def test_a_store_derived_from_ours_is_asked_through_its_verbs():
    asked = []

    class Counting(MemoryStore):
        def claim(self, requests):
            asked.append("claim")
            return super().claim(requests)

        def finish(self, changes):
            asked.append("finish")
            return super().finish(changes)

        def mark(self, marks):
            asked.append("mark")
            return super().mark(marks)

    once = Once(Counting())
    once.run("k", lambda: 1)
    once.seen("k")
    assert asked == ["claim", "finish", "mark"]
