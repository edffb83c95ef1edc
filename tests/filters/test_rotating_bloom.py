"""RotatingBloom: an id is remembered for at least a window, and at most a generation longer."""

import logging

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from dupeproof import ConfigError
from dupeproof.core.clock import steady_clock
from dupeproof.filters import RotatingBloom

WINDOW = 3_000


class Hand:
    """A clock moved by hand."""

    def __init__(self):
        self.now = 1_000_000

    def __call__(self):
        return self.now


@pytest.fixture
def clock():
    return Hand()


def test_an_id_is_remembered_for_a_window_and_gone_a_generation_later(clock):
    bloom = RotatingBloom(1_000, "3s", generations=4, clock=clock)
    assert bloom.add("early") is True
    clock.now += 999
    assert bloom.add("late") is True
    clock.now += 2_999
    assert bloom.might_have_many(["early", "late"]) == [True, True]
    clock.now += 1
    assert "early" in bloom  # at most 4 s
    clock.now += 1
    assert bloom.might_have_many(["early", "late"]) == [False, False]
    assert bloom.add("early") is True


STEPS = st.lists(st.tuples(st.integers(0, 2_000), st.lists(st.integers(0, 30), max_size=12)), max_size=40)


@settings(deadline=None)
@given(STEPS, st.integers(2, 6), st.integers(1, 40))
def test_at_any_pace_an_id_is_remembered_no_shorter_and_no_longer_than_stated(steps, generations, capacity):
    clock = Hand()
    bloom = RotatingBloom(capacity, WINDOW / 1_000, 1e-4, generations=generations, clock=clock)
    longest = WINDOW + -(-WINDOW // (generations - 1))
    added = {}
    for pause, ids in steps:
        clock.now += pause
        for each in ids:
            age = clock.now - added.get(each, -(10**9))
            new = bloom.add(each)
            if age < WINDOW:
                assert not new
            if age > longest:
                assert new
            if new:
                added[each] = clock.now


def test_a_batch_larger_than_a_generation_fills_several_and_keeps_its_rate(clock):
    bloom = RotatingBloom(30_000, "1h", generations=4, clock=clock)
    ids = [f"id-{n}" for n in range(30_000)]
    assert sum(bloom.add_many(ids + ids)) > 29_950
    assert not any(bloom.add_many(ids))
    stats = bloom.stats()
    assert 3 <= stats.generations <= 4
    wrong = sum(bloom.might_have_many(f"other-{n}" for n in range(200_000))) / 200_000
    assert wrong <= 0.0012
    assert stats.bytes / 30_000 < 3


def test_a_steady_stream_stays_within_the_stated_rate_and_memory(clock):
    bloom = RotatingBloom(10_000, "10s", generations=4, clock=clock)
    for second in range(60):
        clock.now += 1_000
        assert sum(bloom.add_many(f"{second}-{n}" for n in range(1_000))) > 990
    stats = bloom.stats()
    assert stats.estimated_error_rate <= 0.0012
    assert stats.bytes <= 3 * 10_000 * 1.4
    wrong = sum(bloom.might_have_many(f"other-{n}" for n in range(200_000))) / 200_000
    assert wrong <= 0.0012


def test_more_than_its_capacity_in_a_window_is_told_once(clock, caplog):
    with caplog.at_level(logging.WARNING, "dupeproof"):
        bloom = RotatingBloom(900, "1h", generations=4, clock=clock)
        bloom.add_many(range(900))
        assert caplog.records == []
        bloom.add_many(range(900, 3_000))
        bloom.add_many(range(3_000, 4_000))
    assert len(caplog.records) == 1
    stats = bloom.stats()
    assert stats.fill > 4
    # What is too much goes into further generations: the rate grows with their number, not faster.
    assert stats.estimated_error_rate < 5 * stats.stated_error_rate


def test_a_clock_that_steps_back_forgets_nothing(clock):
    bloom = RotatingBloom(1_000, "3s", clock=clock)
    bloom.add("a")
    clock.now -= 10_000_000
    assert bloom.add("a") is False
    bloom.add("b")
    assert bloom.might_have_many(["a", "b"]) == [True, True]
    clock.now += 10_000_000 + 2_999
    assert bloom.might_have_many(["a", "b"]) == [True, True]


def test_after_a_long_silence_everything_is_gone_at_once(clock):
    bloom = RotatingBloom(1_000, "3s", clock=clock)
    bloom.add("a")
    clock.now += 3_600_000
    assert "a" not in bloom
    assert bloom.stats().generations == 1


def test_its_clock_cannot_be_set():
    assert steady_clock() <= steady_clock()
    bloom = RotatingBloom(1_000, "1h", accept_errors=True)
    assert bloom.seen("a") is False
    assert bloom.fresh(["a", "b"]) == ["b"]


def test_bad_options_are_refused():
    for generations in (0, 1, 17, 2.0, True):
        with pytest.raises(ConfigError, match="generations"):
            RotatingBloom(10, "1h", generations=generations)
    with pytest.raises(ConfigError, match="window"):
        RotatingBloom(10, "soon")
    with pytest.raises(ConfigError, match="accept_errors=True"):
        RotatingBloom(10, "1h").seen("a")
