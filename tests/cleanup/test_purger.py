"""The purger: one pass, and the service in a thread or a task."""

import asyncio
import subprocess
import sys
import threading

import pytest
from cleanup_waiting import until, until_async

from dupeproof import ConfigError, StoreUnavailable
from dupeproof.cleanup import AsyncPurger, Purger
from dupeproof.cleanup.pace import Pace
from dupeproof.core.events import Kind
from dupeproof.core.records import Mark
from dupeproof.stores import open_async_store
from dupeproof.stores.memory import AsyncMemoryStore, MemoryStore


class Clock:
    now = 1_000_000

    def __call__(self):
        return self.now


def store_with_expired(count, kind=MemoryStore):
    clock = Clock()
    store = kind(clock=clock)
    store.mark([Mark(b"old-%d" % n, window=5) for n in range(count)])
    store.mark([Mark(b"new-%d" % n, window=50) for n in range(3)])
    clock.now += 10
    return store


class Gated(MemoryStore):
    """Lets the test decide when a batch may end."""

    def __init__(self, *, clock):
        super().__init__(clock=clock)
        self.began, self.may_end = threading.Event(), threading.Event()

    def purge(self, limit):
        self.began.set()
        self.may_end.wait()
        return super().purge(limit)


class Broken(MemoryStore):
    calls = 0

    def purge(self, limit):
        self.calls += 1
        raise RuntimeError("not a fault of the store's own kind")


def services():
    return [thread for thread in threading.enumerate() if thread.name == "dupeproof-purger"]


def tasks():
    return [task for task in asyncio.all_tasks() if task.get_name() == "dupeproof-purger"]


# One pass


def test_a_pass_removes_everything_expired_in_batches_and_reports_it():
    seen, events = [], []
    purger = Purger(store_with_expired(25), batch=10, pause=0, events=[events.append])
    report = purger.run_once(progress=seen.append)
    assert (report.removed, report.batches, report.complete, report.lag) == (25, 3, True, None)
    assert seen == [10, 20, 25]
    assert [(event.kind, event.count, event.seconds) for event in events] == [
        (Kind.PURGED, 25, report.seconds)
    ]
    assert purger.last == report


async def test_an_async_pass_does_the_same():
    seen = []
    purger = AsyncPurger(AsyncMemoryStore(store_with_expired(25)), batch=10, pause=0)
    report = await purger.run_once(progress=seen.append)
    assert (report.removed, report.batches, report.complete) == (25, 3, True)
    assert seen == [10, 20, 25]


def test_the_second_pass_knows_how_long_rows_may_have_waited():
    purger = Purger(MemoryStore())
    assert purger.run_once().lag is None
    assert purger.run_once().lag >= 0


def test_a_pass_on_a_store_that_is_down_raises(tmp_path):
    with pytest.raises(StoreUnavailable):
        Purger(f"sqlite:///{tmp_path}/missing/dedup.db").run_once()


def test_rows_removed_before_the_store_went_away_are_told():
    class Fading(MemoryStore):
        def purge(self, limit):
            if len(self._marks) < 20:
                raise StoreUnavailable("gone")
            return super().purge(limit)

    events = []
    with pytest.raises(StoreUnavailable):
        Purger(store_with_expired(25, Fading), batch=10, pause=0, events=[events.append]).run_once()
    assert [event.count for event in events] == [10]


# The service


def test_starting_twice_is_one_service_and_stopping_twice_is_fine():
    purger = Purger(MemoryStore(), every="1h")
    purger.stop()
    purger.start()
    purger.start()
    assert len(services()) == 1
    assert purger.running
    purger.stop()
    purger.stop()
    assert not services()
    assert not purger.running


async def test_starting_twice_is_one_task_and_stopping_twice_is_fine():
    purger = AsyncPurger(AsyncMemoryStore(), every="1h")
    await purger.stop()
    await purger.start()
    await purger.start()
    assert len(tasks()) == 1
    assert purger.running
    await purger.stop()
    await purger.stop()
    assert not tasks()
    assert not purger.running


def test_a_stopped_service_starts_again():
    store = store_with_expired(5)
    purger = Purger(store, every="1h")
    with purger:
        until(lambda: purger.last)
    store._clock.now += 100
    with purger:
        until(lambda: purger.last.removed == 3)


def test_an_async_service_starts_again_in_another_loop():
    purger = AsyncPurger(AsyncMemoryStore(store_with_expired(5)), every="1h")

    async def serve():
        async with purger:
            await until_async(lambda: purger.last)
        purger.last = None

    asyncio.run(serve())
    asyncio.run(serve())


def test_a_service_left_behind_by_a_closed_loop_does_not_count_as_running():
    purger = AsyncPurger(AsyncMemoryStore(), every="1h")
    asyncio.run(purger.start())
    assert not purger.running
    asyncio.run(purger.stop())


def test_the_service_comes_back_every_so_often():
    store = store_with_expired(5)
    with Purger(store, every="1ms") as purger:
        until(lambda: store.stats().expired == 0)
        store._clock.now += 100
        until(lambda: store.stats().marks == store.stats().expired == 0)
        assert purger.running


def test_stopping_lets_the_batch_end_and_leaves_the_rest_for_later():
    store = store_with_expired(25, Gated)
    purger = Purger(store, batch=10)
    purger.start()
    store.began.wait()
    stopper = threading.Thread(target=purger.stop)
    stopper.start()
    until(purger._service._stopping.is_set)
    store.may_end.set()
    stopper.join()
    assert (purger.last.removed, purger.last.complete) == (10, False)
    assert store.stats().expired == 15


async def test_stopping_a_task_lets_the_batch_end():
    began, may_end = asyncio.Event(), asyncio.Event()

    class AsyncGated(AsyncMemoryStore):
        async def purge(self, limit):
            began.set()
            await may_end.wait()
            return await super().purge(limit)

    purger = AsyncPurger(AsyncGated(store_with_expired(25)), batch=10)
    await purger.start()
    await began.wait()
    stopper = asyncio.create_task(purger.stop())
    await until_async(purger._service._stopping.is_set)
    may_end.set()
    await stopper
    assert (purger.last.removed, purger.last.complete) == (10, False)


def test_a_listener_may_stop_the_service():
    purger = Purger(store_with_expired(5), every="1ms", events=[lambda event: purger.stop()])
    purger.start()
    until(lambda: not services())
    assert not purger.running


async def test_a_listener_may_stop_the_task():
    stops = []
    purger = AsyncPurger(
        AsyncMemoryStore(store_with_expired(5)),
        every="1ms",
        events=[lambda event: stops.append(asyncio.ensure_future(purger.stop()))],
    )
    await purger.start()
    await until_async(lambda: not tasks())
    await asyncio.gather(*stops)


@pytest.mark.parametrize("scheme", ["sync", "async"])
async def test_a_store_that_was_down_is_purged_when_it_is_back(tmp_path, scheme, caplog):
    kinds = []
    url = f"sqlite:///{tmp_path}/later/dedup.db"
    options = {"every": "10ms", "events": [lambda event: kinds.append(event.kind)]}
    purger = Purger(url, **options) if scheme == "sync" else AsyncPurger(url, **options)
    starting = purger.start()
    if starting is not None:
        await starting
    await until_async(lambda: kinds.count(Kind.STORE_DOWN) >= 2)
    assert purger.running
    (tmp_path / "later").mkdir()
    await until_async(lambda: Kind.PURGED in kinds)
    stopping = purger.stop()
    if stopping is not None:
        await stopping
    assert "Purging failed, trying again later" in caplog.text


def test_an_error_nobody_thought_of_does_not_end_the_service(caplog):
    store = Broken()
    with Purger(store, every="1ms") as purger:
        until(lambda: store.calls >= 3)
        assert purger.running
    assert "not a fault of the store's own kind" in caplog.text


FORKING = """
import os, sys
from dupeproof.cleanup import Purger

purger = Purger(sys.argv[1], every="1h")
purger.start()
while purger.last is None:
    pass
with purger._service._lock:  # the worst moment: the child inherits a lock that nobody will release
    child = os.fork()
    if child == 0:
        assert not purger.running
        purger.last = None
        purger.start()
        while purger.last is None:
            pass
        assert purger.running
        purger.stop()
        os._exit(7)
assert os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]) == 7
assert purger.running
purger.stop()
"""


def test_the_child_of_a_fork_does_not_believe_in_the_thread_of_its_parent(tmp_path):
    subprocess.run(
        [sys.executable, "-W", "ignore", "-c", FORKING, f"sqlite:///{tmp_path}/dedup.db"], check=True
    )


# Set-up


@pytest.mark.parametrize("batch", [0, -1, 1.5, True, "many"])
def test_a_batch_is_a_number_of_rows(batch):
    with pytest.raises(ConfigError, match="batch must be"):
        Purger("memory://", batch=batch)


@pytest.mark.parametrize("pause", [-0.1, float("inf"), float("nan"), True, "long"])
def test_a_pause_is_a_share(pause):
    with pytest.raises(ConfigError, match="pause must be"):
        Purger("memory://", pause=pause)


def test_the_time_between_passes_is_a_duration():
    with pytest.raises(ConfigError, match="every must be longer than zero"):
        Purger("memory://", every=0)


def test_an_async_store_is_refused_by_the_sync_purger():
    with pytest.raises(ConfigError, match="async"):
        Purger(open_async_store("memory://"))


def test_a_purger_does_nothing_when_it_is_made(tmp_path):
    Purger(f"sqlite:///{tmp_path}/dedup.db")
    assert not services()
    assert not list(tmp_path.iterdir())


def test_pauses_follow_the_batch_and_end():
    pace = Pace(every=900.0, batch=1_000, pause=0.5)
    assert pace.after_batch(0.02) == 0.01
    assert pace.after_batch(60.0) == 1.0


def test_retries_come_soon_then_later_but_not_later_than_the_next_pass():
    pace = Pace(every=10.0, batch=1_000, pause=0.5)
    assert [pace.after_failure(n) for n in (1, 2, 3, 4, 5, 500)] == [1.0, 2.0, 4.0, 8.0, 10.0, 10.0]
    assert 9.0 <= pace.after_pass() <= 11.0
