"""Buckets, shares and suggested windows: pure arithmetic."""

import sqlite3

from hypothesis import given
from hypothesis import strategies as st

from dupeproof.core.durations import about, milliseconds, shown
from dupeproof.core.lateness import BOUNDS, Lateness, Tally, bucket_of, bucket_sql, lateness_by_group, merged

ages = st.lists(st.integers(0, 10**10), min_size=1, max_size=50)


def lateness(ages, *, late=0):
    tallies = [Tally("billing", bucket_of(age), 1, 1, 0, age) for age in ages]
    found = lateness_by_group(tallies)["billing"]
    return Lateness(counts=found.counts, duplicates=found.duplicates, late=late, longest=found.longest)


def test_bounds_grow_and_each_bucket_ends_before_its_bound():
    assert list(BOUNDS) == sorted(set(BOUNDS))
    assert [bucket_of(bound - 1) for bound in BOUNDS] == list(range(len(BOUNDS)))
    assert bucket_of(10**12) == len(BOUNDS)


@given(st.integers(-5, 10**10))
def test_a_database_puts_an_age_into_the_same_bucket(age):
    connection = sqlite3.connect(":memory:")
    found = connection.execute(f"SELECT {bucket_sql('age')} FROM (SELECT {age} AS age)").fetchone()
    connection.close()
    assert found == (bucket_of(age),)


@given(ages, st.sampled_from([0.5, 0.99, 0.999, 1.0]))
def test_a_share_is_never_called_younger_than_it_was(ages, share):
    """Within the age that is named, at least that share had come."""
    within = lateness(ages).within(share)
    assert sum(age <= within for age in ages) >= share * len(ages)
    assert within <= max(ages)


@given(ages)
def test_a_suggested_window_outlasts_all_that_came(ages):
    assert lateness(ages).suggested >= max(ages)


def test_a_suggested_window_is_twice_what_covers_all_but_a_thousandth_and_no_less_than_the_longest():
    quick, slow = milliseconds("20s"), milliseconds("45m")
    assert shown(lateness([quick] * 1_000).suggested) == "1m"
    assert shown(lateness([quick] * 1_000 + [slow]).suggested) == "1h"  # the longest
    assert (
        shown(lateness([quick] * 900 + [slow] * 100).suggested) == "2h"
    )  # twice the 45 minutes of one in ten
    assert Lateness().suggested is None
    assert Lateness().within(0.5) is None


def test_tallies_of_a_group_and_bucket_are_added():
    one, two = Tally("a", 3, 1, 2, 1, 7_000), Tally("a", 3, 4, 5, 0, 9_000)
    other = Tally("b", 3, 1, 1, 0, 4_000)
    assert merged([other, one, two]) == [Tally("a", 3, 5, 7, 1, 9_000), other]
    assert Tally.of(("a", 3, 1, None, None, None)) == Tally("a", 3, 1, 0, 0, 0)


def test_durations_are_shown_as_people_write_them():
    assert [shown(milliseconds(each)) for each in ("90s", "4h", "1w", "250ms")] == [
        "90s",
        "4h",
        "7d",
        "250ms",
    ]
    assert [about(each) for each in (0, 250, 1_500, 7_200_000, 7_300_000)] == [
        "0s",
        "250ms",
        "1.5s",
        "2h",
        "2h",
    ]
    assert about(8_100_000) == "2.2h"
