# No twin: threads here, tasks in the async counterpart.
"""Sleeping and doing things at the same time, for the conformance suite."""

import threading
import time
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from typing import TypeVar

T = TypeVar("T")
sleep = time.sleep


def together(count: int, work: Callable[[int], T]) -> list[T]:
    """The answers of `count` calls made at once."""
    start = threading.Barrier(count)

    def run(number: int) -> T:
        start.wait()
        return work(number)

    with ThreadPoolExecutor(count) as threads:
        return list(threads.map(run, range(count)))
