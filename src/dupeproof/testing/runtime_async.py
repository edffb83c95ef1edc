# No twin: tasks here, threads in the sync counterpart.
"""Sleeping and doing things at the same time, for the conformance suite."""

import asyncio
from collections.abc import Awaitable, Callable
from typing import TypeVar

T = TypeVar("T")
sleep = asyncio.sleep


async def together(count: int, work: Callable[[int], Awaitable[T]]) -> list[T]:
    """The answers of `count` calls made at once."""
    return list(await asyncio.gather(*(work(number) for number in range(count))))
