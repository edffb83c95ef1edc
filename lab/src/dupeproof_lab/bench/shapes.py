"""How ids reach an operation: in one loop, one by one, in batches, from threads, from tasks."""

import asyncio
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from time import perf_counter, perf_counter_ns
from typing import Any, Literal

from msgspec import Struct

Operation = Callable[[Any], Any]
Log = list[tuple[int, Any, Any]]
"""Of every call: nanoseconds, what it was given, what it answered."""
Feed = Callable[[list[str], Log | None], float]
"""Give all these ids to the operation; the seconds that took. A log slows it down, so it is kept in a pass of its own."""

BATCH = 1_000


class Shape(Struct, frozen=True):
    kind: Literal["loop", "each", "batches", "threads", "tasks"]
    callers: int = 1

    @property
    def title(self) -> str:
        match self.kind:
            case "threads" | "tasks" if self.callers > 1:
                return f"{self.callers} {self.kind}"
            case "tasks":
                return "one task"
            case "batches":
                return f"batches of {BATCH:,}"
            case _:
                return "one caller"


LOOP = Shape("loop")
"""The operation takes all ids and loops itself."""
EACH = Shape("each")
BATCHES = Shape("batches")


def threads(callers: int) -> Shape:
    return Shape("threads", callers)


def tasks(callers: int) -> Shape:
    """The operation is a coroutine function."""
    return Shape("tasks", callers)


@contextmanager
def opened(shape: Shape, making: Any) -> Iterator[Feed]:
    """Enter the context manager that makes the operation, and yield the way to feed it."""
    match shape.kind:
        case "tasks":
            with asyncio.Runner() as runner:
                operation = runner.run(making.__aenter__())
                try:
                    yield lambda ids, log: runner.run(_from_tasks(operation, ids, log, shape.callers))
                finally:
                    runner.run(making.__aexit__(None, None, None))
        case "threads":
            # The threads outlive the warm-up, so that what a client keeps per thread is there when it counts.
            with making as operation, ThreadPoolExecutor(shape.callers) as pool:
                yield lambda ids, log: _from_threads(operation, ids, log, pool, shape.callers)
        case "batches":
            with making as operation:
                yield lambda ids, log: _drain(operation, _batches(ids), log)
        case "loop":
            with making as operation:
                yield lambda ids, log: _drain(operation, [ids], log)
        case "each":
            with making as operation:
                yield lambda ids, log: _drain(operation, ids, log)


def _batches(ids: list[str]) -> list[list[str]]:
    return [ids[start : start + BATCH] for start in range(0, len(ids), BATCH)]


def _drain(operation: Operation, given: list[Any], log: Log | None) -> float:
    call = operation if log is None else _logged(operation, log)
    began = perf_counter()
    for each in given:
        call(each)
    return perf_counter() - began


def _from_threads(
    operation: Operation, ids: list[str], log: Log | None, pool: ThreadPoolExecutor, callers: int
) -> float:
    call = operation if log is None else _logged(operation, log)
    shared = iter(ids)  # taking the next of a list is one step, so threads may share it

    def drain() -> None:
        for each in shared:
            call(each)

    began = perf_counter()
    running = [pool.submit(drain) for _ in range(callers)]
    for each in running:
        each.result()
    return perf_counter() - began


async def _from_tasks(operation: Operation, ids: list[str], log: Log | None, callers: int) -> float:
    call = operation if log is None else _logged_async(operation, log)
    shared = iter(ids)

    async def drain() -> None:
        for each in shared:
            await call(each)

    began = perf_counter()
    await asyncio.gather(*(drain() for _ in range(callers)))
    return perf_counter() - began


def _logged(operation: Operation, log: Log) -> Operation:
    def call(given: Any) -> None:
        began = perf_counter_ns()
        answer = operation(given)
        log.append((perf_counter_ns() - began, given, answer))

    return call


def _logged_async(operation: Operation, log: Log) -> Operation:
    async def call(given: Any) -> None:
        began = perf_counter_ns()
        answer = await operation(given)
        log.append((perf_counter_ns() - began, given, answer))

    return call
