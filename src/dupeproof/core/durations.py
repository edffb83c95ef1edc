"""The one place where durations are parsed: "24h", "5m", "250ms", seconds, or a timedelta."""

import math
import re
from datetime import timedelta

from dupeproof.errors import ConfigError

Duration = str | int | float | timedelta

_MILLISECONDS = {"ms": 1, "s": 1_000, "m": 60_000, "h": 3_600_000, "d": 86_400_000, "w": 604_800_000}
_FORM = re.compile(r"\s*(\d+(?:\.\d+)?)\s*(ms|s|m|h|d|w)\s*", re.ASCII)
_LONGEST = 100 * 365 * 86_400_000


def milliseconds(value: Duration, *, name: str = "duration") -> int:
    """The duration as whole milliseconds, at least one; `name` is what the error calls it."""
    exact = _parse(value, name)
    if not math.isfinite(exact) or exact <= 0:
        raise ConfigError(
            f"{name} must be longer than zero, got {value!r}; write e.g. '24h', '5m', '250ms' or 30"
        )
    if exact > _LONGEST:
        raise ConfigError(f"{name} must be at most 100 years, got {value!r}")
    return max(1, round(exact))


def shown(milliseconds: int) -> str:
    """As a person would write it, exactly: 4h, 90s."""
    for unit, size in reversed(_MILLISECONDS.items()):
        if unit != "w" and milliseconds % size == 0:
            return f"{milliseconds // size}{unit}"
    raise AssertionError


def about(milliseconds: int) -> str:
    """As a person would say it: 4.2h, 1.5s."""
    for unit, size in reversed(_MILLISECONDS.items()):
        if unit != "w" and milliseconds >= size:
            return f"{milliseconds / size:.1f}".removesuffix(".0") + unit
    return "0s"


def _parse(value: Duration, name: str) -> float:
    if isinstance(value, timedelta):
        return value.total_seconds() * 1_000
    if isinstance(value, int | float) and not isinstance(value, bool):
        return value * 1_000
    if isinstance(value, str) and (match := _FORM.fullmatch(value)):
        return float(match[1]) * _MILLISECONDS[match[2]]
    raise ConfigError(
        f"{name} {value!r} is not a duration; write a number with a unit (ms, s, m, h, d, w) such as '24h' or "
        "'250ms', or in Python a number of seconds or a timedelta"
    )
