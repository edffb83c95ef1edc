"""Of any number of threads, tasks and processes on one key, one runs; the others get its value, or are told."""

import asyncio
import threading
import time
from concurrent.futures import ThreadPoolExecutor

from dupeproof import AsyncOnce, Busy, Once
from support.crowds import crowd
from support.stores import EVERY, SHARED, on

MANY = 64


def together(count, work):
    """Call `work` in that many threads at the same moment; what each of them returned."""
    barrier = threading.Barrier(count)

    def start(_):
        barrier.wait()
        return work()

    with ThreadPoolExecutor(count) as pool:
        return list(pool.map(start, range(count)))


@on(*EVERY)
def test_of_64_threads_one_runs_and_all_get_its_value(url):
    runs = []

    def work():
        runs.append(threading.get_ident())
        time.sleep(0.05)  # the work takes a moment, so that most of the others find the key busy
        return threading.get_ident()

    with Once(url, on_busy="wait", wait="30s") as once:
        values = together(MANY, lambda: once.run("key", work))
    assert len(runs) == 1
    assert values == runs * MANY


@on(*EVERY)
def test_of_64_threads_one_runs_and_the_others_are_told_that_it_is_busy(url):
    runs, told = [], threading.Semaphore(0)

    def work():
        runs.append(1)
        for _ in range(MANY - 1):  # stay until everyone else has an answer
            assert told.acquire(timeout=20)
        return "mine"

    def ask():
        try:
            return once.run("key", work)
        except Busy:
            told.release()
            return "busy"

    with Once(url) as once:
        answers = together(MANY, ask)
        assert once.run("key", work) == "mine"
    assert len(runs) == 1
    assert sorted(answers) == ["busy"] * (MANY - 1) + ["mine"]


@on(*EVERY)
async def test_of_64_tasks_one_runs_and_all_get_its_value(url):
    runs = []

    async def work():
        runs.append(1)
        await asyncio.sleep(0.05)
        return len(runs)

    async with AsyncOnce(url, on_busy="wait", wait="30s") as once:
        values = await asyncio.gather(*(once.run("key", work) for _ in range(MANY)))
    assert len(runs) == 1
    assert values == [1] * MANY


@on(*EVERY)
async def test_of_64_tasks_one_runs_and_the_others_are_told_that_it_is_busy(url):
    runs, told = [], asyncio.Semaphore(0)

    async def work():
        runs.append(1)
        async with asyncio.timeout(20):
            for _ in range(MANY - 1):
                await told.acquire()
        return "mine"

    async def ask():
        try:
            return await once.run("key", work)
        except Busy:
            told.release()
            return "busy"

    async with AsyncOnce(url) as once:
        answers = await asyncio.gather(*(ask() for _ in range(MANY)))
    assert len(runs) == 1
    assert sorted(answers) == ["busy"] * (MANY - 1) + ["mine"]


@on(*SHARED)
def test_sixteen_processes_racing_down_a_list_of_keys_run_each_key_once(url, tmp_path):
    keys = [f"key-{number}" for number in range(20)]
    seen = crowd(url, tmp_path / "ledger", keys, on_busy="wait", wait="30s")
    assert seen.errors == []
    assert seen.runs == dict.fromkeys(keys, 1)
    assert len(seen.answers) == 16 * len(keys)
    for key in keys:
        assert len(seen.values(key)) == 1


@on(*SHARED)
def test_of_16_processes_one_runs_and_the_others_are_told_that_it_is_busy(url, tmp_path):
    seen = crowd(url, tmp_path / "ledger", ["key"], linger_until_busy=15)
    assert seen.runs == {"key": 1}
    assert seen.errors == ["Busy"] * 15
    assert len(seen.values("key")) == 1


@on(*EVERY)
def test_eight_threads_racing_down_a_list_of_keys_run_each_key_once(url):
    keys, runs = range(100), []
    with Once(url, on_busy="wait", wait="30s") as once:

        def race():
            return [once.run(f"key-{number}", runs.append, number) for number in keys]

        together(8, race)
    assert sorted(runs) == list(keys)
