"""Cancelled or interrupted in the middle: the effect may have happened, so the claim is not given back."""

import asyncio
import socket
import threading
import time

import pytest

from dupeproof import AsyncOnce, Busy, Held, Once, StoreUnavailable
from support.stores import EVERY, on
from support.workers import wait_for

LEASE = "400ms"


async def state_of(once, key):
    entry = await once.get(key)
    return None if entry is None else entry.state


async def reaches(once, key, state):
    async with asyncio.timeout(20):
        while await state_of(once, key) != state:  # noqa: ASYNC110 - the store has no event to wait for
            await asyncio.sleep(0.01)


async def cancelled_in_the_handler(once):
    entered = asyncio.Event()

    async def work():
        entered.set()
        await asyncio.Event().wait()

    task = asyncio.create_task(once.run("key", work))
    await entered.wait()
    task.cancel()
    with pytest.raises(asyncio.CancelledError):
        await task


async def value():
    return "value"


@on(*EVERY)
async def test_a_cancelled_handler_leaves_the_key_busy_until_its_lease_is_over(url):
    kinds = []
    events = [lambda event: kinds.append(str(event.kind))]
    async with AsyncOnce(url, lease=LEASE, events=events) as once:
        await cancelled_in_the_handler(once)
        with pytest.raises(Busy):
            await once.run("key", value)
        await reaches(once, "key", "abandoned")
        assert (await once.attempt("key", value)).attempt == 2
    assert kinds == ["won", "abandoned", "busy", "took_over", "finished"]


@on(*EVERY)
async def test_a_cancelled_handler_under_hold_leaves_the_key_held(url):
    async with AsyncOnce(url, lease=LEASE, on_abandoned="hold") as once:
        await cancelled_in_the_handler(once)
        await reaches(once, "key", "held")
        with pytest.raises(Held):
            await once.run("key", value)


@on(*EVERY)
@pytest.mark.parametrize("error", [KeyboardInterrupt, SystemExit])
def test_an_interrupted_handler_leaves_the_key_busy_until_its_lease_is_over(url, error):
    def interrupted():
        raise error

    with Once(url, lease=LEASE) as once:
        with pytest.raises(error):
            once.run("key", interrupted)
        with pytest.raises(Busy):
            once.run("key", int)
        wait_for(lambda: once.get("key").state == "abandoned")
        assert once.attempt("key", int).attempt == 2


@on(*EVERY)
async def test_cancelling_those_who_wait_leaves_the_claim_of_the_owner_alone(url):
    leave = asyncio.Event()

    async def work():
        await leave.wait()
        return "value of the owner"

    async with AsyncOnce(url, on_busy="wait", wait="30s") as once:
        owner = asyncio.create_task(once.attempt("key", work))
        await reaches(once, "key", "running")
        waiting = [asyncio.create_task(once.run("key", work)) for _ in range(8)]
        await asyncio.sleep(0.1)
        for task in waiting[:7]:
            task.cancel()
        ended = await asyncio.gather(*waiting[:7], return_exceptions=True)
        assert all(isinstance(each, asyncio.CancelledError) for each in ended)
        assert await state_of(once, "key") == "running"
        leave.set()
        assert (await owner).attempt == 1
        assert await waiting[7] == "value of the owner"


@on(*EVERY)
async def test_calls_cancelled_at_any_moment_never_mix_up_the_answers_of_others(url):
    """A connection that was cut off in the middle of an answer must not be used for the next question."""

    async def give(number):
        return number

    async def impatient(number):
        task = asyncio.create_task(once.run(f"impatient-{number}", give, number))
        await asyncio.sleep((number % 10) * 0.0005)
        task.cancel()
        await asyncio.gather(task, return_exceptions=True)

    async def patient(number):
        assert await once.run(f"patient-{number}", give, number) == number
        assert await once.run(f"patient-{number}", give, number) == number

    async with AsyncOnce(url, lease="2s") as once:
        for start in range(0, 100, 20):
            numbers = range(start, start + 20)
            await asyncio.gather(*map(impatient, numbers), *map(patient, numbers))


@pytest.mark.parametrize(
    "scheme", ["postgresql://user@127.0.0.1:{}/db?timeout=1s", "redis://127.0.0.1:{}/0?timeout=1s"]
)
async def test_a_call_cancelled_while_it_connects_leaves_no_connection_behind(scheme):
    """A server keeps a place for everyone it is still talking to about who they are."""
    with socket.create_server(("127.0.0.1", 0)) as listener:
        once = AsyncOnce(scheme.format(listener.getsockname()[1]))
        task = asyncio.create_task(once.run("key", value))
        half_open, _ = await asyncio.to_thread(listener.accept)
        with half_open:
            half_open.settimeout(5)
            assert await asyncio.to_thread(half_open.recv, 65536)  # its greeting, which nobody answers
            # Python 3.11's wait_for loses a cancellation that comes at the very moment the greeting is sent.
            await asyncio.sleep(0.05)
            task.cancel()
            with pytest.raises(asyncio.CancelledError) as kept:
                await task
            while await asyncio.to_thread(half_open.recv, 65536):
                continue  # the rest of the greeting; without the end of the line this runs into the time limit
            assert kept.tb, "closed although the error, and with it every frame, is still there"
        await once.close()


@pytest.mark.server("redis")
@pytest.mark.parametrize("on_store_down", ["raise", "run"])
async def test_a_call_cancelled_while_it_insists_on_recording_ends_as_cancelled(own_redis, on_store_down):
    server = own_redis()
    lease = 2.0
    once = AsyncOnce(f"{server.url}?timeout=200ms", lease=lease, on_store_down=on_store_down)
    away = asyncio.Event()

    async def work():
        server.pause()
        away.set()

    task = asyncio.create_task(once.run("key", work))
    try:
        await away.wait()
        await asyncio.sleep(lease / 2)
        task.cancel()
        cancelled = time.monotonic()
        with pytest.raises(asyncio.CancelledError):
            await task
        assert time.monotonic() < cancelled + lease, "the rest of the lease, and not another one"
    finally:
        server.resume()
    await once.close()


def test_a_store_that_is_down_is_said_to_be_so_where_no_thread_can_be_started():
    once = Once("redis://127.0.0.1:1/0")
    before = threading.stack_size(1 << 46)  # more than any machine has, so that starting a thread fails
    try:
        for _ in range(2):
            with pytest.raises(StoreUnavailable):
                once.run("key", int)
        once.close()
    finally:
        threading.stack_size(before)
