"""RedisBloom: one filter for many processes. On a plain Redis a real one; the module's commands on fakeredis."""

import asyncio
import contextlib
import logging
import threading

import fakeredis
import pytest
import redis

from dupeproof import ConfigError, KeyInvalid, StoreUnavailable
from dupeproof.filters import AsyncRedisBloom, RedisBloom
from dupeproof.filters.redis_bloom_layout import bloom_script, names
from dupeproof_lab.servers import keyspace
from support.proxy import Proxy
from support.stores import on

both = on("redis", "redis_cluster")


@pytest.fixture
def fake_url():
    """A server in this process that knows the commands of the module; not a Redis."""
    server = fakeredis.TcpFakeServer(("127.0.0.1", 0))
    thread = threading.Thread(target=server.serve_forever, args=(0.02,))
    thread.start()
    yield f"redis://127.0.0.1:{server.server_address[1]}/0"
    server.shutdown()
    server.server_close()
    thread.join()


@pytest.fixture
def direct(redis_url):
    with contextlib.closing(redis.Redis.from_url(redis_url)) as direct:
        yield direct


def check_answers(url):
    with RedisBloom(url, "orders", 1_000) as bloom, RedisBloom(url, "orders", 1_000) as other:
        assert bloom.might_have("a") is False
        assert bloom.add("a") is True
        assert other.add("a") is False
        assert other.add_many(["a", "b", "b", 5, "5"]) == [False, True, False, True, False]
        assert bloom.might_have_many(["a", "b", "c"]) == [True, True, False]
        assert bloom.add_many([]) == bloom.might_have_many([]) == []
        stats = bloom.stats()
        assert (stats.added, stats.capacity, stats.generations) == (3, 1_000, 1)
        assert 0 <= stats.estimated_error_rate < stats.stated_error_rate
        with RedisBloom(url, "other", 1_000) as apart:
            assert apart.might_have("a") is False
            assert apart.stats().added == 0
        bloom.clear()
        assert other.might_have("a") is False
        assert bloom.add("a") is True


@both
def test_it_answers_surely_new_or_probably_known(url):
    check_answers(url)


def test_it_answers_the_same_with_the_module_on_fakeredis(fake_url):
    check_answers(fake_url)


def check_mismatch(url):
    with RedisBloom(url, "orders", 1_000, 0.01) as bloom:
        assert bloom.add("a") is True
    for capacity, rate in ((1_000, 0.001), (2_000, 0.01)):
        with RedisBloom(url, "orders", capacity, rate) as other:
            for call in (lambda: other.add("b"), lambda: other.might_have("a"), other.stats):
                with pytest.raises(ConfigError, match=r"made for 1000 ids at 0\.01, not for .* another name"):
                    call()
            assert RedisBloom(url, "orders", 1_000, 0.01).might_have("b") is False
    with RedisBloom(url, "orders", 2_000) as larger:
        larger.clear()
        assert larger.add("a") is True


@both
def test_a_filter_made_for_something_else_is_refused(url):
    check_mismatch(url)


def test_a_filter_made_for_something_else_is_refused_with_the_module_on_fakeredis(fake_url):
    check_mismatch(fake_url)


def test_a_filter_that_somebody_else_made_is_refused_with_the_module_on_fakeredis(fake_url):
    with contextlib.closing(redis.Redis.from_url(fake_url, protocol=2)) as direct:
        direct.execute_command("BF.RESERVE", names("orders").module, 0.01, 1_000)
        with RedisBloom(fake_url, "orders", 1_000, 0.01) as bloom:
            with pytest.raises(ConfigError, match=r"error rate is not known.*clear\(\)"):
                bloom.add("a")
            bloom.clear()
            assert bloom.add("a") is True
            # Somebody makes another under it, by hand.
            direct.delete(names("orders").module)
            direct.execute_command("BF.RESERVE", names("orders").module, 0.01, 77)
            with pytest.raises(ConfigError, match="made for 77 ids, not for 1000"):
                bloom.add("b")


def test_a_flushed_server_gets_the_same_filter_again_on_fakeredis(fake_url):
    with (
        contextlib.closing(redis.Redis.from_url(fake_url, protocol=2)) as direct,
        RedisBloom(fake_url, "orders", 1_000, 0.01) as bloom,
    ):
        bloom.add("a")
        direct.flushall()
        assert bloom.might_have("a") is False
        assert bloom.stats().added == 0
        assert bloom.add("a") is True
        with (
            RedisBloom(fake_url, "orders", 1_000) as other,
            pytest.raises(ConfigError, match=r"at 0\.01, not for 1000 at 0\.001"),
        ):
            other.add("b")


def test_the_module_is_used_where_there_is_one_on_fakeredis(fake_url):
    with (
        contextlib.closing(redis.Redis.from_url(fake_url, protocol=2)) as direct,
        RedisBloom(fake_url, "orders", 1_000) as bloom,
    ):
        bloom.add_many(range(100))
        assert direct.execute_command("BF.INFO", names("orders").module)[1] == 1_000


@both
def test_flushed_scripts_and_keys_change_nothing_else(url):
    with RedisBloom(url, "orders", 1_000) as bloom:
        bloom.add("a")
        with keyspace.masters(url) as masters:
            for master in masters:
                master.call("SCRIPT", "FLUSH")
        assert bloom.add("a") is False
        keyspace.empty(url)
        assert bloom.might_have("a") is False
        assert bloom.add("a") is True


def test_at_full_capacity_the_error_rate_and_the_memory_are_as_stated(redis_url, direct):
    count = 50_000
    with RedisBloom(redis_url, "orders", count) as bloom:
        assert sum(bloom.add_many(range(count))) > count * 0.999
        assert all(bloom.might_have_many(range(0, count, 7)))
        probes = 100_000
        wrong = sum(bloom.might_have_many(f"other-{n}" for n in range(probes)))
        stats = bloom.stats()
    expected = probes * 0.001
    assert wrong <= expected + 4 * expected**0.5
    assert 0.7 < stats.estimated_error_rate * probes / wrong < 1.4
    used = direct.memory_usage(names("orders").bits)
    assert used / count <= 2
    assert stats.bytes / count <= 1.9
    assert stats.bytes <= used
    assert stats.fill == pytest.approx(1, abs=0.001)


@pytest.mark.parametrize(("capacity", "rate"), [(10, 0.01), (100, 0.0001), (5_000, 0.05)])
def test_small_ones_hold_their_rate_too(redis_url, capacity, rate):
    with RedisBloom(redis_url, "small", capacity, rate) as bloom:
        bloom.add_many(range(capacity))
        probes = 30_000
        wrong = sum(bloom.might_have_many(f"other-{n}" for n in range(probes)))
    assert wrong <= probes * rate * 1.2 + 4 * (probes * rate) ** 0.5


@both
def test_past_its_capacity_it_says_so_once(url, caplog):
    with RedisBloom(url, "orders", 100) as bloom, caplog.at_level(logging.WARNING, "dupeproof"):
        bloom.add_many(range(100))
        assert caplog.records == []
        bloom.add_many(range(100, 200))
        bloom.add_many(range(200, 300))
        assert bloom.stats().fill > 2
    assert len(caplog.records) == 1


def test_past_its_capacity_it_says_so_with_the_module_on_fakeredis(fake_url, caplog):
    with RedisBloom(fake_url, "orders", 100) as bloom, caplog.at_level(logging.WARNING, "dupeproof"):
        bloom.add_many(range(250))
        stats = bloom.stats()
    assert stats.generations > 1
    assert len(caplog.records) == 1


@both
async def test_of_many_at_once_one_adds_each_id(url):
    async with AsyncRedisBloom(url, "orders", 10_000, 1e-6) as bloom:
        ids = [f"id-{n}" for n in range(500)]
        answers = await asyncio.gather(*(bloom.add_many(ids) for _ in range(5)))
        assert [sum(each) for each in zip(*answers, strict=True)] == [1] * 500
        assert await bloom.might_have("id-1") is True
        assert (await bloom.stats()).added == 500
        await bloom.clear()
        assert await bloom.add("id-1") is True


def test_without_accepting_errors_it_drops_nothing_by_itself(redis_url):
    with RedisBloom(redis_url, "orders", 1_000) as bloom:
        for call in (lambda: bloom.seen("a"), lambda: bloom.fresh(["a"])):
            with pytest.raises(ConfigError, match="accept_errors=True"):
                call()
        assert bloom.might_have("a") is False
    with RedisBloom(redis_url, "orders", 1_000, accept_errors=True) as bloom:
        assert bloom.seen("a") is False
        assert bloom.seen("a") is True
        assert bloom.fresh([{"id": 1}, {"id": "a"}, {"id": 1}], key=lambda m: m["id"]) == [{"id": 1}]


async def test_the_async_form_accepts_errors_too(redis_url):
    async with AsyncRedisBloom(redis_url, "orders", 1_000, accept_errors=True) as bloom:
        assert await bloom.seen("a") is False
        assert await bloom.fresh(["a", "b"]) == ["b"]


def test_what_does_not_fit_into_a_string_is_refused(redis_url):
    with RedisBloom(redis_url, "large", 1_000_000_000) as bloom, pytest.raises(ConfigError, match="512 MB"):
        bloom.add("a")


def test_a_lost_reply_is_told_and_not_repeated(redis_url):
    with (
        contextlib.closing(Proxy(redis_url)) as proxy,
        RedisBloom(f"{proxy.url}?timeout=1s", "orders", 1_000) as bloom,
    ):
        bloom.add("before")
        proxy.lose("reply", bloom_script().sha)
        with pytest.raises(StoreUnavailable):
            bloom.add("a")
        assert bloom.might_have("a") is True


def test_bad_input_is_refused(redis_url):
    with pytest.raises(ConfigError, match="namespace"):
        RedisBloom(redis_url, "not a name", 10)
    with pytest.raises(ConfigError, match="capacity"):
        RedisBloom(redis_url, "orders", 0)
    with pytest.raises(ConfigError, match="error_rate"):
        RedisBloom(redis_url, "orders", 10, 2.0)
    with pytest.raises(ConfigError, match="redis://"):
        RedisBloom("memory://", "orders", 10)
    with RedisBloom(redis_url, "orders", 10) as bloom, pytest.raises(KeyInvalid):
        bloom.add_many(["a", None])
