"""CompactSeen: exact to 64 bits, a tenth of the memory, by Redis' own clock."""

import asyncio
import contextlib
import itertools
import threading
import time

import pytest
import redis

from dupeproof import ConfigError, KeyInvalid, StoreUnavailable
from dupeproof.filters import AsyncCompactSeen, CompactSeen
from dupeproof.filters.compact_layout import book_key, compact_script
from dupeproof.stores import open_async_store, open_store
from dupeproof_lab.servers import keyspace
from support.proxy import Proxy
from support.stores import on
from support.workers import wait_for

both = on("redis", "redis_cluster")


def on_all_masters(url, *command):
    with keyspace.masters(url) as masters:
        return [master.call(*command) for master in masters]


@pytest.fixture
def direct(redis_url):
    with contextlib.closing(redis.Redis.from_url(redis_url)) as direct:
        yield direct


@both
def test_an_id_is_seen_from_the_second_time_on(url):
    with CompactSeen(url, window="1h") as seen:
        assert seen.seen("a") is False
        assert seen.seen("a") is True
        assert seen.fresh(["a", "b", "c", "b"]) == ["b", "c"]
        assert seen.fresh([{"id": 5}, {"id": "b"}], key=lambda message: message["id"]) == [{"id": 5}]
        assert seen.known(["5", "new", "a"]) == [True, False, True]
        assert seen.seen("new") is False
        assert seen.forget("a") is True
        assert seen.forget("a") is False
        assert seen.seen("a") is False
        assert seen.fresh([]) == seen.known([]) == []


@both
async def test_the_async_form_is_the_same(url):
    async with AsyncCompactSeen(url) as seen:
        assert await seen.seen("a") is False
        assert await seen.fresh(["a", "b", "b"]) == ["b"]
        assert await seen.known(["a", "c"]) == [True, False]
        assert await seen.forget("a") is True
        assert (await seen.stats()).added == 1


@both
def test_many_ids_keep_their_order_over_several_round_trips(url):
    ids = [f"id-{n}" for n in range(3_500)]
    with CompactSeen(url) as seen:
        assert seen.fresh(ids[::2]) == ids[::2]
        assert seen.fresh(ids) == ids[1::2]
        assert seen.fresh(reversed(ids)) == []


@both
def test_namespaces_are_apart_and_a_store_can_be_shared(url):
    store = open_store(url)
    one, other = CompactSeen(store, namespace="one"), CompactSeen(store, namespace="other")
    assert one.seen("a") is False
    assert other.seen("a") is False
    one.close()
    assert one.seen("a") is True
    store.close()


def test_a_window_later_an_id_is_new_and_nothing_is_left_behind(redis_url, direct):
    with CompactSeen(redis_url, window="400ms") as seen:
        assert seen.seen("a") is False
        begun = time.monotonic()
        wait_for(lambda: not seen.known(["a"])[0])
        assert time.monotonic() - begun + 0.01 >= 0.4
        assert seen.seen("a") is False
    wait_for(lambda: direct.dbsize() == 0)


@both
def test_no_id_is_first_twice_inside_a_window_while_generations_turn(url):
    window = 0.3
    firsts = {}
    lock = threading.Lock()
    deadline = time.monotonic() + 2

    def ask():
        with CompactSeen(url, window=window, expected=1) as seen:
            while time.monotonic() < deadline:
                before = time.monotonic()
                fresh = seen.fresh(range(40))
                after = time.monotonic()
                with lock:
                    for each in fresh:
                        firsts.setdefault(each, []).append((before, after))

    threads = [threading.Thread(target=ask) for _ in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert sorted(firsts) == list(range(40))
    turns = 0
    for moments in firsts.values():
        moments.sort()
        for (earliest, _), (_, latest) in itertools.pairwise(moments):
            assert latest - earliest >= window - 0.002  # milliseconds are whole
            turns += 1
    assert turns >= 40


async def test_of_many_at_once_one_is_first(redis_cluster_url):
    async with (
        AsyncCompactSeen(redis_cluster_url, expected=1) as one,
        AsyncCompactSeen(redis_cluster_url) as two,
    ):
        ids = [f"id-{n}" for n in range(300)]
        answers = await asyncio.gather(*(seen.fresh(ids) for seen in (one, two) * 3))
    assert sorted(each for fresh in answers for each in fresh) == sorted(ids)


def test_ten_times_what_was_expected_still_takes_ten_bytes_an_id(redis_url, direct):
    count = 200_000
    before = direct.info("memory")["used_memory"]
    with CompactSeen(redis_url, window="1h", expected=count // 10) as seen:
        for start in range(0, count, 10_000):
            ids = [f"id-{n}" for n in range(start, start + 10_000)]
            assert len(seen.fresh(ids)) == 10_000
        used = direct.info("memory")["used_memory"] - before
        stats = seen.stats()
        assert not seen.fresh(f"id-{n}" for n in range(0, count, 7))
    assert used / count <= 12
    assert 0.8 < stats.bytes / used < 1.2
    assert 0.9 < stats.added / count < 1.1
    assert 0 < stats.estimated_error_rate <= stats.stated_error_rate
    names = [name for name in direct.scan_iter(count=10_000) if name != book_key(ord("A"), seen._namespace)]
    assert {direct.object("encoding", name) for name in names} == {b"intset"}
    assert all(direct.pttl(name) > 0 for name in names)


def test_the_next_generation_is_made_for_as_many_as_came(redis_url, direct):
    with CompactSeen(redis_url, window="2s", expected=1) as seen:
        seen.fresh(range(20_000))
        grown = seen.stats().generations
        assert grown > 1
        time.sleep(1.1)  # half a window: the one in use has had its time
        seen.seen("turn")
        sets = [int.from_bytes(line, "big") for line in _sets(direct, seen)]
    assert sets[0] == 1
    assert max(sets) >= 16


def _sets(direct, seen):
    book = direct.get(book_key(ord("A"), seen._namespace))
    return [book[at + 24 : at + 28] for at in range(0, len(book), 28)]


@both
def test_a_flushed_server_remembers_nothing_and_answers_rightly(url):
    with CompactSeen(url) as seen:
        ids = [f"id-{n}" for n in range(50)]
        assert seen.fresh(ids) == ids
        on_all_masters(url, "FLUSHALL")
        assert seen.fresh(ids) == ids
        assert seen.fresh(ids) == []
        on_all_masters(url, "SCRIPT", "FLUSH")
        assert seen.fresh(ids) == []
        on_all_masters(url, "SCRIPT", "FLUSH")
        assert seen.seen("more") is False


def test_sets_whose_book_is_gone_make_no_duplicates(redis_url, direct):
    with CompactSeen(redis_url) as seen:
        seen.fresh(["a", "b"])
        direct.delete(book_key(ord("A"), seen._namespace))
        time.sleep(0.002)
        assert seen.fresh(["a", "c"]) == ["a", "c"]
        assert seen.fresh(["a", "c"]) == []


def test_a_clock_that_was_set_back_forgets_nothing(redis_url, direct):
    with CompactSeen(redis_url, window="1m", expected=1_000) as seen:
        seen.seen("a")
        key = book_key(ord("A"), seen._namespace)
        book = direct.get(key)
        # As if the generation had been opened an hour from now: its sets are named by that moment.
        opened = int.from_bytes(book[:8], "big")
        later = (opened + 3_600_000).to_bytes(8, "big")
        for name in direct.keys(key.replace(b"{", b"[{]") + b"?*"):
            direct.rename(name, key + later + name[-4:])
        direct.set(key, later + book[8:])
        assert seen.fresh(["a", "b"]) == ["b"]
        assert len(seen.fresh(range(5_000))) == 5_000  # fills it, so that others are opened
        assert seen.stats().generations > 1
        assert seen.fresh(["a", "b", *range(5_000)]) == []


@both
def test_a_mark_lasts_as_long_as_its_maker_wants_whatever_others_want(url):
    with CompactSeen(url, window="200ms") as short, CompactSeen(url, window="1h") as long:
        assert short.seen("before") is False
        assert long.fresh(["before", "a"]) == ["a"]
        assert short.seen("b") is False
        for number in range(4):
            time.sleep(0.15)
            short.fresh(f"{number}-{n}" for n in range(50))
            assert long.fresh(["a"]) == short.fresh(["a"]) == []
        time.sleep(0.15)
        short.seen("last")
        time.sleep(0.7)  # longer than anything of the short one
        assert long.known(["a", "before"]) == [True, False]


def test_a_generation_that_others_close_is_remembered_from_its_last_mark_on(redis_url):
    with CompactSeen(redis_url, window="100ms") as short, CompactSeen(redis_url, window="3s") as long:
        long.seen("early")
        time.sleep(1.4)
        long.seen("late")
        marked = time.monotonic()
        short.seen("turn")
        time.sleep(2)
        late = long.known(["late"])
        assert time.monotonic() - marked < 3
        assert late == [True]


def test_a_lost_reply_is_told_and_not_repeated(redis_url):
    with (
        contextlib.closing(Proxy(redis_url)) as proxy,
        CompactSeen(f"{proxy.url}?timeout=1s") as seen,
        CompactSeen(redis_url) as other,
    ):
        seen.seen("before")
        proxy.lose("reply", compact_script().sha)
        with pytest.raises(StoreUnavailable):
            seen.seen("a")
        assert other.known(["a"]) == [True]


def test_after_a_fail_over_what_was_copied_is_known_and_new_ids_are_new(own_redis_sentinel):
    group = own_redis_sentinel()
    ids = [f"id-{n}" for n in range(500)]
    with CompactSeen(group.url) as seen:
        assert seen.fresh(ids) == ids
        with keyspace.one_master(group.url) as master:
            assert master.call("WAIT", 1, 5_000) >= 1
        old = group.master_port()
        group.master.kill()
        group.wait_failover(old)
        assert answered(lambda: seen.known(ids)) == [True] * 500
        assert answered(lambda: seen.fresh([*ids, "new"])) == ["new"]


@pytest.mark.parametrize("way", ["restart", "kill"])
def test_a_durable_server_that_comes_back_forgets_nothing(own_redis, way):
    server = own_redis(appendonly=True)
    ids = [f"id-{n}" for n in range(2_000)]
    with CompactSeen(server.url, expected=1) as seen:
        assert seen.fresh(ids) == ids
        if way == "kill":
            server.kill()
            server.start()
        else:
            server.restart()
        assert seen.fresh([*ids, "new"]) == ["new"]


def answered(ask):
    """The first answer that comes; a mark that may have been made raises instead of being repeated."""
    deadline = time.monotonic() + 20
    while True:
        try:
            return ask()
        except StoreUnavailable:
            assert time.monotonic() < deadline


def test_a_bad_key_among_many_marks_none(redis_url):
    with CompactSeen(redis_url) as seen:
        with pytest.raises(KeyInvalid):
            seen.fresh(["a", None])
        assert seen.known(["a"]) == [False]


def test_it_needs_a_redis():
    with pytest.raises(ConfigError, match="redis://"):
        CompactSeen("memory://")
    with pytest.raises(ConfigError, match="expected must be"):
        CompactSeen("redis://localhost", expected=0)
    with pytest.raises(ConfigError, match="window"):
        CompactSeen("redis://localhost", window="soon")
    with pytest.raises(ConfigError, match="async"):
        CompactSeen(open_async_store("redis://localhost"))
