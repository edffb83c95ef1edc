"""A slow handler keeps its claim as long as its process can speak for it, and loses it when it cannot."""

import asyncio
import threading
import time

import pytest

from dupeproof import AsyncOnce, Busy, ClaimLost, Once
from support.stores import DURABLE, on
from support.workers import wait_for

LEASE = 0.5
SLOW = 3 * LEASE


def refusals_until(over, competitor):
    """Ask for the key again and again; how often it was refused. Anything but a refusal is a failure."""
    refused = 0
    while not over():
        with pytest.raises(Busy):
            competitor.run("key", int)
        refused += 1
        time.sleep(0.02)
    return refused


@on(*DURABLE)
def test_a_handler_that_only_computes_for_three_leases_keeps_its_claim(url, worker):
    busy = worker(url, lease=f"{LEASE}s")
    assert busy.ask(do="burn", key="key", seconds=SLOW, stops=["before"]) == {"at": "before"}
    with Once(url) as competitor:
        until = time.monotonic() + SLOW - 0.1
        busy.send()
        assert refusals_until(lambda: time.monotonic() > until, competitor) > 10
        answer = busy.hear()
        assert answer["value"] is True
        assert answer["events"] == ["won", "finished"]


@on(*DURABLE)
async def test_an_async_handler_that_sleeps_for_three_leases_keeps_its_claim(url):
    async def sleep():
        await asyncio.sleep(SLOW)
        return "slept"

    async with AsyncOnce(url, lease=f"{LEASE}s") as once:
        task = asyncio.create_task(once.run("key", sleep))
        with Once(url) as competitor:
            wait_for_claim = asyncio.to_thread(wait_for, lambda: competitor.get("key") is not None)
            await wait_for_claim
            until = time.monotonic() + SLOW - 0.1
            assert await asyncio.to_thread(refusals_until, lambda: time.monotonic() > until, competitor) > 10
        assert await task == "slept"


@on(*DURABLE)
def test_an_async_handler_that_blocks_its_loop_loses_the_claim_and_is_told(url, worker):
    """The documented limit: timers of the loop cannot beat while the loop stands still."""
    competitor = worker(url)
    kinds = []

    async def block():
        wait_for(lambda: competitor.ask(do="state", key="key")["state"] == "abandoned")
        assert competitor.run("key", "taken")["value"] == "taken"
        return "late"

    async def main():
        events = [lambda event: kinds.append(str(event.kind))]
        async with AsyncOnce(url, lease=f"{LEASE}s", events=events) as once:
            with pytest.raises(ClaimLost):
                await once.run("key", block)
            assert await once.run("key", block) == "taken"

    asyncio.run(main())
    assert kinds == ["won", "lost", "replayed"]


@on(*DURABLE)
def test_sixty_four_slow_handlers_in_one_process_all_keep_their_claims(url):
    leave = threading.Event()
    entered = threading.Semaphore(0)
    answers = []

    def work():
        entered.release()
        assert leave.wait(20)
        return "kept"

    with Once(url, lease=f"{LEASE}s") as once, Once(url) as competitor:
        threads = [
            threading.Thread(target=lambda key=f"key-{n}": answers.append(once.attempt(key, work)))
            for n in range(64)
        ]
        for thread in threads:
            thread.start()
        for _ in threads:
            assert entered.acquire(timeout=20)
        until = time.monotonic() + SLOW
        while time.monotonic() < until:
            for number in range(64):
                assert competitor.get(f"key-{number}").state == "running"
        leave.set()
        for thread in threads:
            thread.join()
    assert [(answer.value, answer.attempt) for answer in answers] == [("kept", 1)] * 64


@on("memory")
async def test_a_claim_is_kept_when_every_other_task_is_cancelled(url):
    """As a shutdown does; also in the turn in which a renewal is about to begin."""
    async with AsyncOnce(url, lease=f"{LEASE}s") as once:
        async with once.claim("key"):
            ours, until = asyncio.all_tasks(), time.monotonic() + LEASE
            cancelled = 0
            while not cancelled or time.monotonic() < until:
                for task in asyncio.all_tasks() - ours:
                    task.cancel()
                    cancelled += 1
                    until = time.monotonic()
                await asyncio.sleep(0)
            await asyncio.sleep(SLOW)
            with pytest.raises(Busy):
                await once.run("key", asyncio.sleep, 0)
