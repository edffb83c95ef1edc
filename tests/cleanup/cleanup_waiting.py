"""Wait for a condition, not for a time; the test's own time limit is the bound."""

import asyncio
import time


def until(condition):
    while not (answer := condition()):
        time.sleep(0.005)
    return answer


async def until_async(condition):
    while not (answer := condition()):  # noqa: ASYNC110 - what is waited for has no event of its own
        await asyncio.sleep(0.005)
    return answer
