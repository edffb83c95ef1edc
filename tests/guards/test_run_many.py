"""Many items at once: the same answers as one by one, a batch claimed and finished in one go."""

import asyncio
import contextlib
import threading
import time

import pytest

from dupeproof import AsyncOnce, Once
from dupeproof.core.codecs import JsonCodec
from dupeproof.errors import Busy, ClaimLost, ConfigError, KeyInvalid, KeyMissing, KeyReused, StoreUnavailable
from dupeproof.stores.memory import AsyncMemoryStore, MemoryStore


async def _forever(item):
    await asyncio.Event().wait()


def _never(item):
    pytest.fail("nothing may run")


class Counting(MemoryStore):
    """Remembers the size of each batch."""

    def __init__(self):
        super().__init__()
        self.claimed = []
        self.finished = []

    def claim(self, requests):
        self.claimed.append(len(requests))
        return super().claim(requests)

    def finish(self, changes):
        self.finished.append(len(changes))
        return super().finish(changes)


def test_values_come_in_order_and_each_item_runs_once(any_url):
    ran = []

    def double(item):
        ran.append(item)
        return item * 2

    with Once(any_url) as once:
        assert once.run_many(range(10), double, batch=4) == [2 * n for n in range(10)]
        assert once.run_many(range(15), double, batch=4) == [2 * n for n in range(15)]
    assert ran == list(range(15))


async def test_values_come_in_order_and_each_item_runs_once_in_tasks(any_url):
    ran = []

    async def double(item):
        ran.append(item)
        return item * 2

    async with AsyncOnce(any_url) as once:
        assert await once.run_many(range(10), double, batch=4) == [2 * n for n in range(10)]
        results = await once.attempt_many(range(15), double, batch=100)
    assert [result.value for result in results] == [2 * n for n in range(15)]
    assert [result.replayed for result in results] == [True] * 10 + [False] * 5
    assert ran == list(range(15))


def test_a_batch_is_claimed_and_finished_in_one_go():
    store = Counting()
    Once(store).run_many(range(250), str)
    assert store.claimed == [100, 100, 50]
    assert store.finished == [100, 100, 50]


def test_it_is_the_same_key_and_content_as_run(any_url):
    with Once(any_url) as once:
        messages = [{"id": "m-1", "n": 1}, {"id": "m-2", "n": 2}]
        assert once.run("m-1", lambda message: message["n"], messages[0]) == 1
        results = once.attempt_many(messages, lambda message: message["n"] * 10, key=lambda m: m["id"])
        assert [(result.value, result.replayed) for result in results] == [(1, True), (20, False)]
        with pytest.raises(KeyReused):
            once.run("m-2", lambda message: 0, {"id": "m-2", "n": 3})


def test_content_is_not_compared_when_the_caller_says_so():
    once = Once("memory://")
    assert once.run_many([object()], lambda item: 1, key=lambda item: "k", fingerprint=False) == [1]
    with pytest.raises(KeyInvalid, match=r"args\[0\] is of type"):
        once.run_many([object()], lambda item: 1, key=lambda item: "k2")


def test_a_key_that_stands_in_a_batch_twice_runs_once(any_url):
    ran = []
    with Once(any_url) as once:
        results = once.attempt_many(["a", "b", "a", "a"], lambda item: ran.append(item) or len(ran))
    assert ran == ["a", "b"]
    assert [result.value for result in results] == [1, 2, 1, 1]
    assert [result.replayed for result in results] == [False, False, True, True]


def test_one_that_fails_leaves_the_others_done(any_url):
    def handle(n):
        if n == 2:
            raise ZeroDivisionError(n)
        return n

    with Once(any_url) as once:
        with pytest.raises(ExceptionGroup, match="1 of 4 items") as group:
            once.run_many(range(4), handle)
        assert [type(error) for error in group.value.exceptions] == [ZeroDivisionError]
        assert [once.get(n).state for n in range(4)] == ["done", "done", "failed", "done"]
        results = once.attempt_many(range(4), lambda n: n * 10)
        assert [result.value for result in results] == [0, 1, 20, 3]
        assert results[2].attempt == 2


def test_busy_and_reused_keys_are_told_by_item(any_url):
    with Once(any_url) as once, once.claim("held"):
        once.run("other", lambda item: 1, "something else")
        held, other, mine = once.attempt_many(["held", "other", "mine"], str.upper)
    assert isinstance(held.error, Busy)
    assert isinstance(other.error, KeyReused)
    assert (mine.value, mine.error) == ("MINE", None)


def test_busy_keys_are_waited_for_where_the_guard_waits(any_url):
    with Once(any_url, on_busy="wait", wait="10s") as once:
        held = once.claim("k")
        held.acquire()
        threading.Timer(0.1, held.finish, ["theirs"]).start()
        results = once.attempt_many(["j", "k"], str.upper, fingerprint=False)
    assert [(result.value, result.replayed) for result in results] == [("J", False), ("theirs", True)]


def test_a_key_that_was_lost_is_told_by_item(any_url):
    with Once(any_url) as once:

        def handle(item):
            if item == "a":
                once.forget("a")
            return item

        lost, fine = once.attempt_many(["a", "b"], handle)
    assert isinstance(lost.error, ClaimLost)
    assert fine.value == "b"


def test_an_interruption_records_what_has_run_and_hands_back_what_has_not(any_url):
    def handle(n):
        if n == 2:
            raise KeyboardInterrupt
        return n

    with Once(any_url) as once:
        with pytest.raises(KeyboardInterrupt):
            once.run_many(range(5), handle)
        assert [entry and entry.state for entry in map(once.get, range(5))] == [
            "done", "done", "running", None, None,
        ]  # fmt: skip
        assert once.attempt("3", lambda n: n, 3).attempt == 1


async def test_a_cancellation_records_what_has_run_and_hands_back_what_has_not(any_url):
    begun = asyncio.Event()

    async def handle(n):
        if n == 2:
            begun.set()
            await asyncio.sleep(60)
        return n

    async with AsyncOnce(any_url) as once:
        task = asyncio.create_task(once.run_many(range(5), handle))
        await begun.wait()
        task.cancel()
        with pytest.raises(asyncio.CancelledError):
            await task
        states = [entry and entry.state for entry in [await once.get(n) for n in range(5)]]
    assert states == ["done", "done", "running", None, None]


async def test_a_cancellation_stays_one_when_nothing_can_be_handed_back():
    class NeverReleasing(AsyncMemoryStore):
        async def release(self, changes):
            raise StoreUnavailable("down")

    once = AsyncOnce(NeverReleasing())
    with pytest.raises(TimeoutError):
        async with asyncio.timeout(0.05):
            await once.run_many("abc", _forever)


async def test_who_is_cancelled_in_the_hook_of_a_dead_item_hands_back_the_others():
    hooked = asyncio.Event()

    async def on_dead(call):
        hooked.set()
        await asyncio.sleep(0.01)

    once = AsyncOnce("memory://", max_attempts=1, lease="50ms", on_dead=on_dead)
    with contextlib.suppress(TimeoutError):
        async with asyncio.timeout(0.01):
            await once.run("b", _forever, "b")
    await asyncio.sleep(0.1)
    task = asyncio.create_task(once.run_many("abc", _forever))
    await hooked.wait()
    task.cancel()
    with pytest.raises(asyncio.CancelledError):
        await task
    assert [entry and entry.state for entry in [await once.get(key) for key in "abc"]] == [None, "dead", None]


def test_a_value_that_cannot_be_read_back_costs_the_others_nothing():
    class Broken(JsonCodec):
        def decode(self, data, kind):
            raise ZeroDivisionError

    once = Once("memory://", codec=Broken())
    once.run("b", lambda item: 1, "b")
    a, b, c = once.attempt_many("abc", str.upper)
    assert (a.value, c.value) == ("A", "C")
    assert isinstance(b.error, ZeroDivisionError)


async def test_items_that_never_let_the_loop_turn_do_not_cost_the_batch_its_claims():
    memory = MemoryStore()
    once, other = AsyncOnce(AsyncMemoryStore(memory), lease="200ms"), Once(memory)
    taken = []

    async def blocking(item):
        time.sleep(0.05)  # noqa: ASYNC251 - that is the point
        for number in range(10):
            with contextlib.suppress(Busy):
                other.run(number, taken.append, number)
        return item

    assert await once.run_many(range(10), blocking) == list(range(10))
    assert taken == []


def test_an_item_that_went_to_somebody_else_before_its_turn_is_not_run_again(monkeypatch):
    store = MemoryStore()
    once, other = Once(store, lease="200ms"), Once(store)
    monkeypatch.setattr(once._engine.heartbeat, "_renewed", lambda due, now: False)
    ran = []

    def handle(item):
        ran.append(item)
        if item == "a":
            time.sleep(0.25)  # frozen; then the heartbeat comes back
            assert other.run("b", lambda item: "other", "b") == "other"
            monkeypatch.undo()
            once._engine.heartbeat._wake(0.05)
            time.sleep(0.2)
        return item

    a, b = once.attempt_many("ab", handle)
    assert ran == ["a"]
    assert (a.value, b.value, b.replayed) == ("a", "other", True)


def test_a_slow_batch_is_recorded_as_it_goes(monkeypatch):
    from dupeproof.guards import many

    monkeypatch.setattr(many, "_LONGEST_UNRECORDED", 0.0)
    store = Counting()
    Once(store).run_many(range(3), str)
    assert store.finished == [1, 1, 1]


def test_nothing_runs_when_the_store_is_down(tmp_path):
    once = Once(f"sqlite:///{tmp_path}/missing/dedup.db")
    with pytest.raises(StoreUnavailable):
        once.run_many(range(3), _never)


def test_everything_runs_unguarded_where_the_guard_says_so(tmp_path):
    once = Once(f"sqlite:///{tmp_path}/missing/dedup.db", on_store_down="run")
    assert once.run_many(range(3), str) == ["0", "1", "2"]


@pytest.mark.parametrize("batch", [0, -1, 1.5, True, "10"])
def test_a_batch_of_nothing_is_refused(batch):
    with pytest.raises(ConfigError, match="batch must be"):
        Once("memory://").run_many([1], str, batch=batch)


def test_a_bad_key_is_refused_before_anything_of_its_batch_runs():
    once = Once("memory://")
    with pytest.raises(KeyMissing):
        once.run_many(["a", ""], _never)
    assert once.get("a") is None


def test_nothing_is_nothing():
    assert Once("memory://").run_many([], _never) == []
    assert Once("memory://").fresh([]) == []


def test_a_million_ids_are_marked_a_batch_at_a_time():
    sizes = []

    class Watching(MemoryStore):
        def mark(self, marks):
            sizes.append(len(marks))
            return [True] * len(marks)

    assert len(Once(Watching()).fresh(range(1_000_000))) == 1_000_000
    assert max(sizes) == 1_000
