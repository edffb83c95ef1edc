"""Work that comes to its end although who waits for it is cancelled."""

import asyncio
from collections.abc import Coroutine
from typing import Any, TypeVar

T = TypeVar("T")
_detached: set[asyncio.Task[Any]] = set()
"""The loop itself keeps only weak references to its tasks."""


async def detached(work: Coroutine[Any, Any, T]) -> T:
    task = asyncio.ensure_future(work)
    _detached.add(task)
    task.add_done_callback(_detached.discard)
    return await asyncio.shield(task)
