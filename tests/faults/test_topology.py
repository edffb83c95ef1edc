"""Sentinels and nodes that keep silent or are wrong: calls find their way, or say so in the time they have."""

import asyncio
import time
from concurrent.futures import ThreadPoolExecutor

import pytest

from dupeproof import AsyncOnce, Once, StoreUnavailable
from dupeproof_lab.servers.sentinel import MASTER_NAME, Sentinel

CALLERS = 12


async def nothing():
    return None


@pytest.fixture
def silent_cluster(own_redis_cluster):
    cluster = own_redis_cluster(masters=3)
    yield cluster
    cluster.resume()


@pytest.mark.server("redis_cluster")
def test_threads_do_not_wait_for_each_others_search_in_a_silent_cluster(silent_cluster):
    with Once(f"{silent_cluster.url}?timeout=1s") as once, ThreadPoolExecutor(CALLERS) as threads:
        once.run("before", int)
        silent_cluster.pause()

        def ask(number):
            with pytest.raises(StoreUnavailable):
                once.run(f"key-{number}", int)

        for _ in range(2):  # on the connections there were, and when there are none
            began = time.monotonic()
            list(threads.map(ask, range(CALLERS)))
            assert time.monotonic() - began < 5, "one search each, one after the other"


@pytest.mark.server("redis_cluster")
async def test_tasks_do_not_wait_for_each_others_search_in_a_silent_cluster(silent_cluster):
    async with AsyncOnce(f"{silent_cluster.url}?timeout=1s") as once:
        await once.run("before", nothing)
        silent_cluster.pause()
        for _ in range(2):
            began = time.monotonic()
            answers = await asyncio.gather(
                *(once.run(f"key-{number}", nothing) for number in range(CALLERS)), return_exceptions=True
            )
            assert {type(answer) for answer in answers} == {StoreUnavailable}
            assert time.monotonic() - began < 5, "one search each, one after the other"


@pytest.fixture
def beside_a_wrong_one(own_redis_sentinel):
    """The URL of a group, whose first Sentinel takes a replica for the primary and is too lonely to find out."""
    group = own_redis_sentinel()
    with Sentinel(group.replica, quorum=10, down_after_ms=60_000) as wrong:
        others = group.url.removeprefix("redis+sentinel://")
        yield f"redis+sentinel://127.0.0.1:{wrong.port},{others}?timeout=2s"
        assert wrong.sees()["port"] == str(group.replica.port), f"{MASTER_NAME} was found after all"


@pytest.mark.server("redis_sentinel")
def test_a_sentinel_that_names_the_wrong_server_is_not_the_only_one_that_is_asked(beside_a_wrong_one):
    with Once(beside_a_wrong_one) as once:
        assert once.run("key", lambda: "value") == "value"


@pytest.mark.server("redis_sentinel")
async def test_tasks_that_doubt_a_sentinel_together_ask_the_next_one(beside_a_wrong_one):
    async with AsyncOnce(beside_a_wrong_one) as once:
        await asyncio.gather(*(once.run(f"key-{number}", nothing) for number in range(CALLERS)))


def test_a_name_that_no_host_can_have_is_a_store_that_cannot_be_reached():
    with Once("redis://a..b:6379") as once, pytest.raises(StoreUnavailable, match="cannot be reached"):
        once.seen("key")


async def test_a_name_that_no_host_can_have_is_so_for_tasks_too():
    async with AsyncOnce("redis://a..b:6379") as once:
        with pytest.raises(StoreUnavailable, match="cannot be reached"):
            await once.seen("key")
