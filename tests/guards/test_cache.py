"""The local cache: replays without a round trip, as long as the window, and until the key is forgotten."""

import time

import pytest

from dupeproof import AsyncOnce, Once
from dupeproof.core.outcomes import Done, Mismatch
from dupeproof.errors import ConfigError, KeyReused, NotReplayable
from dupeproof.guards.cache import FinishedCache
from dupeproof.stores.memory import AsyncMemoryStore, MemoryStore


class Counting(MemoryStore):
    def __init__(self):
        super().__init__()
        self.asked = 0

    def claim(self, requests):
        self.asked += 1
        return super().claim(requests)

    def get(self, keys):
        self.asked += 1
        return super().get(keys)


def test_a_replay_of_what_this_guard_finished_asks_nobody():
    store = Counting()
    once = Once(store, cache=10)
    once.run("k", lambda: 7)
    asked = store.asked
    assert [once.run("k", lambda: 8) for _ in range(5)] == [7] * 5
    result = once.attempt("k", lambda: 8)
    assert (result.value, result.replayed, result.attempt) == (7, True, 1)
    with once.claim("k") as claim:
        assert (claim.won, claim.done, claim.result) == (False, True, 7)
    assert store.asked == asked


def test_a_replay_of_what_somebody_else_finished_asks_the_first_time():
    store = Counting()
    Once(store).run("k", lambda: 7)
    once = Once(store, cache=10)
    assert once.run("k", lambda: 8) == 7
    asked = store.asked
    assert once.run("k", lambda: 8) == 7
    assert store.asked == asked


async def test_it_works_for_tasks():
    store = Counting()
    once = AsyncOnce(AsyncMemoryStore(store), cache=10)

    async def work():
        return 7

    assert (await once.attempt("k", work)).value == 7
    asked = store.asked
    assert await once.run("k", work) == 7
    assert store.asked == asked
    assert await once.forget("k")
    assert (await once.attempt("k", work)).replayed is False


def test_values_are_made_anew_for_each_replay(any_url):
    with Once(any_url, cache=10) as once:
        once.run("k", lambda: {"items": [1]})
        first = once.run("k", lambda: None)
        first["items"].append(2)
        assert once.run("k", lambda: None) == {"items": [1]}


def test_other_content_under_a_cached_key_is_refused(any_url):
    with Once(any_url, cache=10) as once:
        once.run("k", lambda n: n, 1)
        with pytest.raises(KeyReused):
            once.run("k", lambda n: n, 2)
        assert once.run("k", lambda n: n, 1) == 1


def test_the_window_ends_in_the_cache_too(any_url):
    with Once(any_url, window="300ms", cache=10) as once:
        once.run("k", lambda: 1)
        assert once.run("k", lambda: 2) == 1
        time.sleep(0.35)
        assert once.run("k", lambda: 2) == 2


def test_the_window_of_what_was_finished_elsewhere_is_not_lengthened(any_url):
    with Once(any_url, window="400ms") as first, Once(any_url, window="400ms", cache=10) as second:
        first.run("k", lambda: 1)
        time.sleep(0.25)
        assert second.run("k", lambda: 2) == 1
        time.sleep(0.2)
        assert second.run("k", lambda: 2) == 2


def test_a_forgotten_key_is_forgotten_here_too(any_url):
    with Once(any_url, cache=10) as once:
        once.run("k", lambda: 1)
        assert once.run("k", lambda: 2) == 1
        assert once.forget("k")
        assert once.run("k", lambda: 2) == 2


def test_a_key_forgotten_elsewhere_is_forgotten_in_time(durable_url):
    with Once(durable_url) as elsewhere, Once(durable_url, cache=10, cache_for="200ms") as once:
        once.run("k", lambda: 1)
        assert elsewhere.forget("k")
        assert once.run("k", lambda: 2) == 1  # as documented
        time.sleep(0.25)
        assert once.run("k", lambda: 2) == 2


def test_failed_and_busy_keys_are_not_cached(any_url):
    with Once(any_url, cache=10) as once:
        with pytest.raises(ZeroDivisionError):
            once.run("k", lambda: 1 / 0)
        assert once.attempt("k", lambda: 2).attempt == 2
        assert once.run("k", lambda: 3) == 2


def test_done_without_a_value_is_done_in_the_cache_too(any_url):
    with Once(any_url, cache=10) as once:
        once.run("k", lambda: print)
        for _ in range(2):
            with pytest.raises(NotReplayable):
                once.run("k", lambda: 1)


def test_the_one_not_asked_for_the_longest_goes_first():
    cache = FinishedCache(2, 60)
    done = Done(b"1", "json", 1)
    for key in (b"a", b"b"):
        cache.keep(key, b"", done, until=time.monotonic() + 60, drops=0)
    assert cache.find(b"a", b"") is done
    cache.keep(b"c", b"", done, until=time.monotonic() + 60, drops=0)
    assert len(cache) == 2
    assert cache.find(b"b", b"") is None
    assert cache.find(b"a", b"") is done


def test_what_was_asked_for_before_a_forget_is_not_kept_after_it():
    cache = FinishedCache(2, 60)
    drops = cache.drops
    cache.drop(b"a")
    cache.keep(b"a", b"", Done(b"1", "json", 1), until=time.monotonic() + 60, drops=drops)
    assert cache.find(b"a", b"") is None


def test_fingerprints_are_compared_where_both_are_known():
    cache = FinishedCache(2, 60)
    done = Done(b"1", "json", 1)
    cache.keep(b"a", b"one", done, until=time.monotonic() + 60, drops=0)
    assert cache.find(b"a", b"one") is done
    assert cache.find(b"a", b"") is done
    assert isinstance(cache.find(b"a", b"two"), Mismatch)


@pytest.mark.parametrize("size", [-1, 1.5, True, "many"])
def test_a_cache_of_no_size_is_refused(size):
    with pytest.raises(ConfigError, match="cache must be"):
        Once("memory://", cache=size)
