"""Durations are parsed in one place, and what is not one is refused."""

from datetime import timedelta

import pytest
from hypothesis import given
from hypothesis import strategies as st

from dupeproof import ConfigError
from dupeproof.core.durations import milliseconds


@pytest.mark.parametrize(
    ("given", "expected"),
    [
        ("24h", 86_400_000),
        ("5m", 300_000),
        ("250ms", 250),
        ("1.5s", 1_500),
        (" 2 d ", 172_800_000),
        ("1w", 604_800_000),
        (30, 30_000),
        (0.25, 250),
        (0.0001, 1),
        (timedelta(minutes=1, milliseconds=5), 60_005),
    ],
)
def test_every_form_is_understood(given, expected):
    assert milliseconds(given) == expected


@given(st.integers(1, 10**5), st.sampled_from(["ms", "s", "m", "h"]))
def test_a_number_and_a_unit_multiply(number, unit):
    assert (
        milliseconds(f"{number}{unit}") == number * {"ms": 1, "s": 1_000, "m": 60_000, "h": 3_600_000}[unit]
    )


@pytest.mark.parametrize(
    "given",
    [
        "",
        "5",
        "h",
        "5 minutes",
        "-5m",
        "5m3s",
        "\u0665m",
        None,
        [],
        True,
        0,
        -1,
        "0s",
        float("nan"),
        timedelta(0),
    ],
)
def test_anything_else_is_refused_by_its_name(given):
    with pytest.raises(ConfigError, match="lease"):
        milliseconds(given, name="lease")
