"""Waiting for a busy key: the value of the winner, or Busy when patience runs out."""

import asyncio
import threading
import time

import pytest

from dupeproof import AsyncOnce, Busy, Once


def test_a_waiter_gets_the_winners_value(any_url):
    with Once(any_url, on_busy="wait", wait="20s") as once:
        started, may_end = threading.Event(), threading.Event()

        def slow() -> str:
            started.set()
            may_end.wait(20)
            return "winner's"

        values = []
        first = threading.Thread(target=lambda: values.append(once.run("k", slow)))
        second = threading.Thread(target=lambda: values.append(once.run("k", lambda: "loser's")))
        first.start()
        started.wait(20)
        second.start()
        may_end.set()
        first.join(20)
        second.join(20)
        assert values == ["winner's", "winner's"]


def test_waiting_is_bounded(any_url):
    with Once(any_url, on_busy="wait", wait="100ms") as once, once.claim("k"):
        start = time.monotonic()
        with pytest.raises(Busy):
            once.run("k", lambda: 1)
        assert 0.1 <= time.monotonic() - start < 10


def test_a_waiter_takes_over_when_the_winner_fails(any_url):
    with Once(any_url, on_busy="wait", wait="20s") as once:
        started, may_end = threading.Event(), threading.Event()

        def failing() -> None:
            started.set()
            may_end.wait(20)
            raise OSError("no")

        def first() -> None:
            with pytest.raises(OSError, match="no"):
                once.run("k", failing)

        outcomes = []
        threads = [
            threading.Thread(target=first),
            threading.Thread(target=lambda: outcomes.append(once.attempt("k", lambda: "second"))),
        ]
        threads[0].start()
        started.wait(20)
        threads[1].start()
        may_end.set()
        for thread in threads:
            thread.join(20)
        [outcome] = outcomes
        assert (outcome.value, outcome.attempt) == ("second", 2)


async def test_tasks_wait_too(any_url):
    async with AsyncOnce(any_url, on_busy="wait", wait="20s") as once:
        runs = []

        async def slow() -> int:
            runs.append(1)
            await asyncio.sleep(0.05)
            return len(runs)

        values = await asyncio.gather(*(once.run("k", slow) for _ in range(10)))
        assert values == [1] * 10
        with pytest.raises(Busy):
            async with once.claim("c"):
                impatient = AsyncOnce(any_url, on_busy="wait", wait="50ms")
                await impatient.run("c", slow)
        await impatient.close()
