"""A claim is good for one use, and its end is told once."""

import asyncio
import logging
import threading

import pytest

from dupeproof import AsyncOnce, Busy, ClaimLost, ConfigError, Cooldown, Once, StoreUnavailable
from dupeproof.stores.memory import AsyncMemoryStore, MemoryStore
from support.workers import wait_for


def test_a_claim_cannot_be_entered_twice():
    once = Once("memory://")
    claim = once.claim("k")
    with claim, pytest.raises(ConfigError, match="one use"), claim:
        pytest.fail("entered twice")
    with pytest.raises(ConfigError, match="one use"), claim:
        pytest.fail("entered again")


def test_a_claim_cannot_be_finished_twice_or_without_being_won():
    once = Once("memory://")
    claim = once.claim("k")
    with pytest.raises(ConfigError, match="not open"):
        claim.finish(1)
    claim.acquire()
    claim.finish(1)
    for end in (lambda: claim.finish(2), lambda: claim.fail(ValueError())):
        with pytest.raises(ConfigError, match="not open"):
            end()
    assert once.get("k").result == 1


def test_a_lambda_must_be_named_to_be_decorated():
    with pytest.raises(ConfigError, match="name="):
        Once("memory://")(key="x")(lambda x: x)


def test_names_and_keys_cannot_be_confused():
    once = Once("memory://")

    def work(x: str, tag: str = "") -> str:
        return x

    one = once(key="x", name="a", fingerprint=False)(work)
    other = once(key="x", name="a:b", fingerprint=False)(work)
    assert one.key_for("b:c") != other.key_for("c")
    assert one("b:c") == "b:c"
    assert other("c") == "c"


def test_closing_in_one_thread_does_not_cost_another_its_claim():
    once = Once("memory://close-while-open", lease="150ms")
    working, may_end = threading.Event(), threading.Event()
    values = []

    def slow() -> str:
        working.set()
        may_end.wait(20)
        return "done"

    thread = threading.Thread(target=lambda: values.append(once.run("k", slow)))
    thread.start()
    working.wait(20)
    once.close()
    for _ in range(40):
        with pytest.raises(Busy):
            Once("memory://close-while-open").run("k", lambda: "stolen")
        threading.Event().wait(0.01)
    may_end.set()
    thread.join(20)
    assert values == ["done"]


async def test_an_async_guard_that_was_closed_and_used_again_keeps_its_claims(durable_url):
    once = AsyncOnce(durable_url, lease="400ms")
    await once.run("before", asyncio.sleep, 0)
    await once.close()
    async with once.claim("k"):
        for _ in range(40):
            with pytest.raises(Busy):
                await once.run("k", asyncio.sleep, 0)
            await asyncio.sleep(0.03)
    await once.close()


def test_one_async_guard_in_two_loops_at_once_keeps_the_claims_of_both(durable_url):
    once = AsyncOnce(durable_url, lease="400ms")
    working = threading.Barrier(2, timeout=20)

    async def work(key: str, short: bool) -> str:
        async with once.claim(key) as claim:
            working.wait()
            await asyncio.sleep(0.05 if short else 1.5)
            claim.result = key
        await once.close()
        return key

    values = []
    threads = [
        threading.Thread(target=lambda: values.append(asyncio.run(work("long", False)))),
        threading.Thread(target=lambda: values.append(asyncio.run(work("short", True)))),
    ]
    for thread in threads:
        thread.start()
    threads[1].join(20)
    with Once(durable_url) as other:
        for _ in range(20):
            with pytest.raises(Busy):
                other.run("long", lambda: "stolen")
            threading.Event().wait(0.04)
    threads[0].join(20)
    assert sorted(values) == ["long", "short"]


class Slow(AsyncMemoryStore):
    """Memory that takes its time to finish and fail."""

    async def finish(self, changes):
        await asyncio.sleep(0.05)
        return await super().finish(changes)

    async def fail(self, changes):
        await asyncio.sleep(0.05)
        return await super().fail(changes)


def test_a_finish_survives_the_end_of_the_loop_that_follows_a_cancellation():
    memory = MemoryStore()

    async def main():
        once = AsyncOnce(Slow(memory))
        with pytest.raises(TimeoutError):
            async with asyncio.timeout(0.02):
                await once.run("k", asyncio.sleep, 0, "value")

    asyncio.run(main())
    assert Once(memory).get("k").result == "value"


def test_the_dead_letter_hook_is_called_although_the_caller_was_cancelled():
    called = []

    async def main():
        once = AsyncOnce(Slow(MemoryStore()), max_attempts=1, on_dead=lambda call: called.append(call.key))
        with pytest.raises(TimeoutError):
            async with asyncio.timeout(0.02):
                await once.run("k", lambda: 1 / 0)

    asyncio.run(main())
    assert called == ["k"]


class Down(MemoryStore):
    """Memory whose verbs can be made to fail after they were carried out."""

    def __init__(self):
        super().__init__()
        self.failing: list[str] = []

    def _answer(self, verb, answer):
        if verb in self.failing:
            self.failing.remove(verb)
            raise StoreUnavailable("the reply was lost")
        return answer

    def claim(self, requests):
        return self._answer("claim", super().claim(requests))

    def fail(self, changes):
        return self._answer("fail", super().fail(changes))

    def unmark(self, marks):
        raise StoreUnavailable("down")


def test_a_claim_granted_after_its_caller_gave_up_is_handed_back():
    store = Down()
    once = Once(store, on_abandoned="hold")
    store.failing = ["claim"]
    with pytest.raises(StoreUnavailable):
        once.run("k", lambda: "never ran")
    assert once.get("k").state == "running"
    wait_for(lambda: once.get("k") is None, what="the claim to be handed back, with no call in between")
    assert once.run("k", lambda: "ran") == "ran"


def test_the_dead_letter_hook_is_called_although_a_reply_was_lost():
    store, dead = Down(), []
    once = Once(store, max_attempts=1, on_dead=dead.append)
    store.failing = ["fail"]
    with pytest.raises(ZeroDivisionError):
        once.run("k", lambda: 1 / 0)
    assert [call.key for call in dead] == ["k"]


def test_a_slot_that_cannot_be_given_back_does_not_hide_the_actions_error(caplog):
    cooldown = Cooldown(Down())
    with (
        caplog.at_level(logging.WARNING, "dupeproof"),
        pytest.raises(OSError, match="smtp"),
        cooldown.allow("user:1", "mail", within="5m"),
    ):
        raise OSError("smtp")
    assert "slot" in caplog.text


class Small(MemoryStore):
    """Memory that takes no large results."""

    def finish(self, changes):
        if any(len(change.result) > 100 for change in changes):
            raise StoreUnavailable("too large", refused=True)
        return super().finish(changes)


def test_a_result_the_store_refuses_is_done_without_it():
    once = Once(Small())
    runs = []

    def work() -> str:
        runs.append(1)
        return "x" * 1_000

    assert len(once.run("k", work)) == 1_000
    with pytest.raises(Exception, match="not run again"):
        once.run("k", work)
    assert runs == [1]


def test_an_owner_that_lost_its_claim_is_told_although_it_finished_late(durable_url):
    with Once(durable_url) as once:
        claim = once.claim("k")
        claim.acquire()
        once.forget("k")
        with pytest.raises(ClaimLost):
            claim.finish(1)
