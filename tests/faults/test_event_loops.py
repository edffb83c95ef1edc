"""An AsyncOnce outlives its event loop: in the next one it opens what it needs anew."""

import asyncio
import gc

import pytest
import uvloop

from dupeproof import AsyncOnce
from dupeproof.process_local_async import PerLoop
from support.stores import EVERY, on

# redis-py cannot close a connection whose loop has ended, and says so when it is collected: each test does that itself.
pytestmark = [
    pytest.mark.filterwarnings("ignore::ResourceWarning"),
    pytest.mark.filterwarnings("ignore::pytest.PytestUnraisableExceptionWarning"),
]


@pytest.fixture(autouse=True)
def _collected():
    yield
    gc.collect()


async def value():
    return "made once"


@on(*EVERY)
def test_an_async_guard_works_on_uvloop(url):
    """Which most servers run on, and whose transports are none of asyncio's."""

    async def use():
        async with AsyncOnce(url) as once:
            many = [once.attempt("key", value) for _ in range(2)]
            return [(await each).replayed for each in many]

    with asyncio.Runner(loop_factory=uvloop.new_event_loop) as runner:
        assert runner.run(use()) == [False, True]


@on(*EVERY)
def test_an_async_guard_works_in_one_loop_after_the_other(url):
    once = AsyncOnce(url)  # outside of any loop

    async def use():
        many = [once.attempt(f"key-{number}", value) for number in range(10)]
        return [result.replayed for result in await asyncio.gather(*many)]

    assert asyncio.run(use()) == [False] * 10
    assert asyncio.run(use()) == [True] * 10
    assert asyncio.run(once.seen("id")) is False
    assert asyncio.run(once.seen("id")) is True
    asyncio.run(once.close())


@on(*EVERY)
def test_a_guard_that_was_closed_opens_again(url):
    async def use():
        once = AsyncOnce(url)
        for replayed in (False, True, True):
            assert (await once.attempt("key", value)).replayed is replayed
            await once.close()
            await once.close()

    asyncio.run(use())


@on(*EVERY)
def test_a_loop_that_ends_with_a_call_in_flight_leaves_nothing_that_disturbs_the_next(url):
    once = AsyncOnce(url, lease="300ms", on_busy="wait")

    async def start_and_leave():
        entered = asyncio.Event()

        async def never():
            entered.set()
            await asyncio.Event().wait()

        task = asyncio.create_task(once.run("key", never))
        await entered.wait()
        task.cancel()
        with pytest.raises(asyncio.CancelledError):
            await task

    asyncio.run(start_and_leave())
    result = asyncio.run(once.attempt("key", value))
    assert (result.value, result.attempt) == ("made once", 2)
    asyncio.run(once.close())


def test_loops_that_come_and_go_in_other_threads_do_not_disturb_the_sweep_of_those_that_ended():
    class Ended:
        def is_closed(self):
            # Meanwhile, in another thread: this one is swept, and one more is made.
            discarded.append(home._made.pop(self, None))
            home._made[asyncio.new_event_loop()] = "of another thread"
            return True

    discarded = []
    home = PerLoop(lambda: "made", discarded.append)
    home._made = {Ended(): "left"}

    async def get():
        return home.get()

    assert asyncio.run(get()) == "made"
    assert discarded == ["left"]
    for loop in home._made:
        loop.close()
