"""Where time is read. Stores without a server clock take one of these, so that tests can move it."""

import time
from collections.abc import Callable

Clock = Callable[[], int]
"""Whole milliseconds since the epoch."""


def system_clock() -> int:
    return time.time_ns() // 1_000_000


def steady_clock() -> int:
    """Whole milliseconds since the machine was started, by a clock that nobody sets and that counts while it sleeps."""
    return time.clock_gettime_ns(time.CLOCK_BOOTTIME) // 1_000_000
