"""An application with the console mounted in it, to which as many messages a second arrive as it is told."""

import asyncio
import os
import time
from contextlib import asynccontextmanager

from console_data import lookup
from starlette.applications import Starlette
from starlette.routing import Mount

from dupeproof import AsyncOnce
from dupeproof.console import ConsoleApp, ConsoleListener

STORE = os.environ["CONSOLE_STORE"]
RATE = int(os.environ.get("CONSOLE_RATE", "0"))
TICK = 0.01
GROUPS = ("orders", "payments")
listener = ConsoleListener()


async def arrive():
    """Every message comes twice, so half of what arrives are duplicates; to a memory, so that the guard costs little."""
    guards = [
        AsyncOnce("memory://arriving", namespace=group, window="1s", events=[listener]) for group in GROUPS
    ]
    began, sent = time.monotonic(), 0
    while True:
        while sent < RATE * (time.monotonic() - began):
            await guards[sent // 2 % len(guards)].seen(f"m-{sent // 2}")
            sent += 1
        await asyncio.sleep(TICK)


@asynccontextmanager
async def live(_app):
    task = asyncio.create_task(arrive()) if RATE else None
    yield
    if task is not None:
        task.cancel()
    await console.close()


console = ConsoleApp(
    STORE,
    listener=listener,
    token=os.environ.get("CONSOLE_TOKEN"),
    settle=lookup if os.environ.get("CONSOLE_LOOKUP") else None,
)
app = Starlette(routes=[Mount("/ops", console)], lifespan=live)
