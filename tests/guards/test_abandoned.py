"""Owners that vanish or are interrupted: rerun, hold, and what is never released."""

import asyncio
import threading
import time

import pytest

from dupeproof import AsyncOnce, Busy, ClaimLost, Held, Once


def eventually(condition, seconds=20.0):
    deadline = time.monotonic() + seconds
    while not (value := condition()):
        assert time.monotonic() < deadline, "waited too long"
        time.sleep(0.01)
    return value


def abandon(once: Once, key: str) -> None:
    """Leave a claim behind as a killed process does: open, and no longer renewed."""
    with pytest.raises(KeyboardInterrupt):
        once.run(key, _interrupt)


def _interrupt() -> str:
    raise KeyboardInterrupt


def test_an_interrupt_does_not_release_the_claim(durable_url):
    with Once(durable_url, lease="30s") as once:
        abandon(once, "k")
        assert once.get("k").state == "running"
        with pytest.raises(Busy):
            once.run("k", lambda: "again")


def test_under_rerun_an_abandoned_key_runs_again_after_its_lease(durable_url):
    with Once(durable_url, lease="200ms", on_busy="wait", wait="20s") as once:
        abandon(once, "k")
        outcome = once.attempt("k", lambda: "again")
        assert (outcome.value, outcome.attempt, outcome.replayed) == ("again", 2, False)


def test_under_hold_it_waits_for_someone_to_resolve_it(durable_url):
    with Once(durable_url, lease="200ms", on_abandoned="hold") as once:
        abandon(once, "k")
        eventually(lambda: once.get("k").state == "held")
        for _ in range(2):
            with pytest.raises(Held, match="resolve"):
                once.run("k", _interrupt)
        assert once.resolve("k", result="looked it up") is True
        assert once.run("k", _interrupt) == "looked it up"


def test_under_hold_reopening_lets_it_run_again_and_never_takes_a_live_claim(durable_url):
    with Once(durable_url, lease="200ms", on_abandoned="hold") as once:
        abandon(once, "k")
        eventually(lambda: once.get("k").state == "held")
        assert once.reopen("k") is True
        with once.claim("k") as claim:
            with pytest.raises(Busy):
                once.reopen("k")
            claim.result = "again"
        assert once.reopen("k") is False
        assert once.run("k", lambda: "thrice") == "again"


def test_an_owner_whose_key_was_forgotten_is_told(durable_url):
    with Once(durable_url) as once:
        with pytest.raises(ClaimLost), once.claim("k") as claim:
            claim.result = 1
            once.forget("k")
        assert once.get("k") is None


def test_a_slow_handler_keeps_its_claim(durable_url):
    with Once(durable_url, lease="300ms") as once:
        with once.claim("k") as claim:
            start = time.monotonic()
            while time.monotonic() - start < 1.2:
                with pytest.raises(Busy), once.claim("k"):
                    pytest.fail("taken over although the owner is alive")
                time.sleep(0.02)
            claim.result = "slow"
        assert once.run("k", lambda: "other") == "slow"


def test_the_heartbeat_tells_an_owner_that_lost_its_claim(durable_url):
    events = []
    with Once(durable_url, lease="300ms", events=[events.append]) as once:
        with pytest.raises(ClaimLost), once.claim("k") as claim:
            once.forget("k")
            eventually(lambda: claim.lost)
        assert [str(event.kind) for event in events] == ["won", "lost"]


async def test_cancelling_does_not_release_the_claim(durable_url):
    async with AsyncOnce(durable_url, lease="30s") as once:
        started = asyncio.Event()

        async def work() -> None:
            started.set()
            await asyncio.sleep(60)

        task = asyncio.create_task(once.run("k", work))
        await started.wait()
        task.cancel()
        with pytest.raises(asyncio.CancelledError):
            await task
        assert (await once.get("k")).state == "running"
        with pytest.raises(Busy):
            await once.run("k", work)


async def test_cancelling_a_waiter_leaves_the_owners_claim_alone(durable_url):
    async with AsyncOnce(durable_url, lease="30s", on_busy="wait", wait="30s") as once:
        async with once.claim("k") as claim:
            waiter = asyncio.create_task(once.run("k", asyncio.sleep, 0))
            await asyncio.sleep(0.1)
            waiter.cancel()
            with pytest.raises(asyncio.CancelledError):
                await waiter
            claim.result = "owner's"
        assert (await once.get("k")).result == "owner's"


async def test_a_finish_reaches_the_store_although_its_caller_was_cancelled(durable_url):
    async with AsyncOnce(durable_url, lease="30s") as once:
        ran = asyncio.Event()

        async def work() -> str:
            ran.set()
            return "done"

        task = asyncio.create_task(once.run("k", work))
        await ran.wait()
        task.cancel()
        await asyncio.wait([task])

        async def is_done() -> bool:
            return (await once.get("k")).state == "done"

        deadline = time.monotonic() + 20
        while not await is_done():
            assert time.monotonic() < deadline
            await asyncio.sleep(0.01)


async def test_a_slow_task_keeps_its_claim(durable_url):
    async with AsyncOnce(durable_url, lease="300ms") as once, once.claim("k") as claim:
        for _ in range(40):
            with pytest.raises(Busy):
                await once.run("k", asyncio.sleep, 0)
            await asyncio.sleep(0.03)
        claim.result = "slow"


def test_many_claims_are_kept_alive_at_once(durable_url):
    with Once(durable_url, lease="400ms") as once:
        held = [once.claim(f"k-{n}") for n in range(20)]
        for claim in held:
            claim.acquire()
        time.sleep(1.0)
        for claim in held:
            claim.finish(1)
        assert {once.get(f"k-{n}").attempts for n in range(20)} == {1}


def test_a_claim_nobody_holds_any_more_is_not_kept_alive_by_the_heartbeat(durable_url):
    with Once(durable_url, lease="100ms") as once:
        claim = once.claim("k")
        claim.acquire()
        time.sleep(0.25)
        assert once.get("k").state == "running"
        del claim
        eventually(lambda: once.get("k").state == "abandoned")


def heartbeats() -> set[threading.Thread]:
    return {thread for thread in threading.enumerate() if thread.name == "dupeproof-heartbeat"}


def test_the_heartbeat_thread_goes_away_when_idle_and_comes_back_when_needed(monkeypatch):
    from dupeproof.guards import heartbeat

    monkeypatch.setattr(heartbeat, "_IDLE_SECONDS", 0.05)
    before = heartbeats()
    once = Once("memory://", lease="100ms")
    for key in ("k1", "k2"):
        with once.claim(key):
            assert heartbeats() - before
        eventually(lambda: heartbeats() <= before)


def test_closing_ends_the_heartbeat_thread():
    before = heartbeats()
    with Once("memory://") as once, once.claim("k"):
        assert heartbeats() - before
    eventually(lambda: heartbeats() <= before, seconds=5)
