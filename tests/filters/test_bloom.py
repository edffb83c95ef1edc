"""Bloom: never a known id taken for new, new ones taken for known at the stated rate, the same bits everywhere."""

import logging
import os
import subprocess
import sys
import threading
import uuid

import pytest
from hypothesis import given
from hypothesis import strategies as st

from dupeproof import ConfigError, KeyInvalid
from dupeproof.filters import Bloom

KEYS = st.one_of(
    st.text(min_size=1).filter(lambda text: text.strip() and "\0" not in text), st.integers(), st.uuids()
)
MILLION = 1_000_000


@given(st.lists(KEYS, max_size=200))
def test_what_was_added_is_never_surely_new(keys):
    bloom = Bloom(1_000)
    bloom.add_many(keys)
    assert all(key in bloom for key in keys)
    assert bloom.might_have_many(keys) == [True] * len(keys)
    assert not any(bloom.add_many(keys))


def test_add_answers_and_adds_in_one_step():
    bloom = Bloom(1_000)
    assert "a" not in bloom
    assert bloom.add("a") is True
    assert bloom.add("a") is False
    assert bloom.add_many(["a", "b", "b", 5, "5"]) == [False, True, False, True, False]
    assert bloom.might_have_many(["a", "b", "c"]) == [True, True, False]


def test_at_full_capacity_the_error_rate_and_the_memory_are_as_stated():
    bloom = Bloom(MILLION)
    bloom.add_many(map("id-{}".format, range(MILLION)))
    wrong = sum(bloom.might_have_many(map("other-{}".format, range(MILLION)))) / MILLION
    stats = bloom.stats()
    assert wrong <= 0.0012
    assert 0.8 < stats.estimated_error_rate / wrong < 1.25
    assert stats.bytes / MILLION <= 1.9
    assert len(bloom._bits.get_bytes()) == stats.bytes
    # An id that is taken for a known one is not counted.
    assert 0.999 < stats.fill <= 1


@pytest.mark.parametrize("error_rate", [0.05, 0.01, 0.0001])
@pytest.mark.parametrize("capacity", [100, 1_000, 50_000])
def test_other_sizes_and_rates_hold_too(capacity, error_rate):
    bloom = Bloom(capacity, error_rate)
    bloom.add_many(range(capacity))
    probes = 200_000
    wrong = sum(bloom.might_have_many(range(-1, -probes - 1, -1)))
    expected = probes * error_rate  # small ones are made larger, and have less
    assert wrong <= expected * 1.2 + 4 * expected**0.5


def test_past_its_capacity_it_says_so_once(caplog):
    bloom = Bloom(10_000)
    with caplog.at_level(logging.WARNING, "dupeproof"):
        bloom.add_many(range(10_000))
        assert caplog.records == []
        for start in range(10_000, 40_000, 10_000):
            bloom.add_many(range(start, start + 10_000))
    [record] = caplog.records
    assert record.message.startswith("A Bloom filter holds more than the 10000 ids it was made for")
    stats = bloom.stats()
    assert stats.fill > 1
    assert stats.estimated_error_rate > 10 * stats.stated_error_rate


GOLDEN = """
from hashlib import sha256
from dupeproof.filters import Bloom
bloom = Bloom(1000)
bloom.add_many(["order-1", "größe", "🙂", 5, "x" * 4096])
print(sha256(bloom._bits.get_bytes()).hexdigest()[:16])
"""


@pytest.mark.parametrize("seed", ["0", "1", "random"])
def test_the_bits_are_the_same_in_every_process(seed):
    run = subprocess.run(
        [sys.executable, "-c", GOLDEN],
        env={**os.environ, "PYTHONHASHSEED": seed},
        capture_output=True,
        text=True,
        check=True,
    )
    # Another value means that snapshots of before can no longer be read.
    assert run.stdout.strip() == "eace61c7d9fb9d66"


def test_without_accepting_errors_it_drops_nothing_by_itself():
    bloom = Bloom(1_000)
    for call in (lambda: bloom.seen("a"), lambda: bloom.fresh(["a"])):
        with pytest.raises(ConfigError, match=r"0\.100% of new messages.*accept_errors=True.*InFront"):
            call()
    assert "a" not in bloom


def test_with_errors_accepted_it_is_used_like_once():
    bloom = Bloom(1_000, accept_errors=True)
    assert bloom.seen("a") is False
    assert bloom.seen("a") is True
    messages = [{"id": n} for n in (1, 2, 1)]
    assert bloom.fresh(messages, key=lambda message: message["id"]) == [{"id": 1}, {"id": 2}]
    assert bloom.fresh(["a", "b"]) == ["b"]


def test_threads_share_it_and_count_each_id_once():
    bloom = Bloom(100_000, 1e-6)
    new = []

    def add():
        new.append(sum(map(bloom.add, range(20_000))))

    threads = [threading.Thread(target=add) for _ in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert sum(new) == bloom.stats().added == 20_000


def test_a_child_forked_while_the_lock_is_held_can_use_it():
    bloom = Bloom(1_000)
    with bloom._lock:
        child = os.fork()
        if child == 0:
            os._exit(0 if bloom.add("a") else 1)
    assert os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]) == 0


def test_a_bad_key_among_many_adds_none():
    bloom = Bloom(1_000)
    with pytest.raises(KeyInvalid):
        bloom.add_many(["a", None])
    with pytest.raises(KeyInvalid):
        b"bytes" in bloom  # noqa: B015
    assert "a" not in bloom
    assert bloom.add_many([]) == bloom.might_have_many([]) == []
    assert bloom.add(uuid.UUID(int=5)) is True
    assert str(uuid.UUID(int=5)) in bloom


@pytest.mark.parametrize("capacity", [0, -1, 1.5, True, "9", None, 10**12])
def test_a_bad_capacity_is_refused(capacity):
    with pytest.raises(ConfigError, match="capacity must be a whole number"):
        Bloom(capacity)


@pytest.mark.parametrize("rate", [0, 0.0, 1, 0.6, -0.1, 1e-7, "0.1", None, True, float("nan")])
def test_a_bad_error_rate_is_refused(rate):
    with pytest.raises(ConfigError, match="error_rate must be a fraction"):
        Bloom(10, rate)


def test_accept_errors_takes_only_yes_or_no():
    with pytest.raises(ConfigError, match="accept_errors"):
        Bloom(10, accept_errors="yes")


WITHOUT = """
import sys
sys.modules["fastbloom_rs"] = sys.modules["redis"] = sys.modules["hiredis"] = sys.modules["psycopg"] = None
from dupeproof import ConfigError, filters
for name in filters.__all__:
    try:
        getattr(filters, name)
    except ConfigError as exc:
        print(name, exc)
"""


def test_without_an_extra_the_rest_works_and_the_error_names_it():
    run = subprocess.run([sys.executable, "-c", WITHOUT], capture_output=True, text=True, check=True)
    said = dict(line.split(" ", 1) for line in run.stdout.splitlines())
    bloom, redis = {"Bloom", "RotatingBloom"}, {"CompactSeen", "RedisBloom"}
    assert said.keys() == bloom | redis | {f"Async{name}" for name in redis}
    for name, text in said.items():
        assert f'pip install "dupeproof[{"bloom" if name in bloom else "redis"}]"' in text
