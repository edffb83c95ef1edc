"""How the servers themselves behave, without framework and guard: what the documentation says of them, measured."""

import asyncio
import time
from dataclasses import dataclass

import httpx
from battery_servers import Running

SECONDS = 1.2
"""What the handler takes; a server that does not wait for it ends in less, and one that waits does so for longer."""


@dataclass(frozen=True)
class Behaviour:
    hang_up: str
    """What a handler hears of it whose client is gone, and whether it may go on."""
    stop_gone: str
    """What becomes of a handler whose client is gone, after SIGTERM."""
    stop_waiting: str
    """And of one whose client waits."""


NOTIFIED, NOT_NOTIFIED = "notified by `receive()`, runs on", "not notified, runs on"
WAITS, DROPS, CANCELS = "waits for it", "drops it", "cancels it"
EXPECTED = {
    "uvicorn": Behaviour(NOTIFIED, WAITS, WAITS),
    "hypercorn-h1": Behaviour(NOTIFIED, DROPS, DROPS),
    "hypercorn-h2": Behaviour(NOTIFIED, WAITS, WAITS),
    "granian-asgi": Behaviour(NOTIFIED, DROPS, WAITS),
    "daphne": Behaviour(NOTIFIED, CANCELS, CANCELS),
    "granian-wsgi": Behaviour(NOT_NOTIFIED, DROPS, WAITS),
    "gunicorn-sync": Behaviour(NOT_NOTIFIED, WAITS, WAITS),
    "gunicorn-gthread": Behaviour(NOT_NOTIFIED, WAITS, WAITS),
    "gunicorn-gevent": Behaviour(NOT_NOTIFIED, WAITS, WAITS),
    "waitress": Behaviour(NOT_NOTIFIED, DROPS, DROPS),
    "uwsgi": Behaviour(NOT_NOTIFIED, DROPS, DROPS),
}


def measure(running: Running) -> Behaviour:
    running.start()
    asyncio.run(_during(running, "hung-up", hang_up=True, stop=False))
    running.wait_for("hung-up", "end")
    hang_up = NOTIFIED if "http.disconnect" in running.wrote("hung-up") else NOT_NOTIFIED
    asyncio.run(_during(running, "gone", hang_up=True, stop=True))
    running.start()
    asyncio.run(_during(running, "waiting", hang_up=False, stop=True))
    return Behaviour(hang_up, _became(running, "gone"), _became(running, "waiting"))


async def _during(running: Running, name: str, *, hang_up: bool, stop: bool) -> None:
    client = httpx.AsyncClient(**running.client_options())
    asking = asyncio.ensure_future(client.post("/", json={"name": name, "seconds": SECONDS}))
    deadline = time.monotonic() + 10
    while "begin" not in running.wrote(name):
        assert time.monotonic() < deadline, running.log
        await asyncio.sleep(0.01)
    if hang_up:
        asking.cancel()
        await asyncio.wait([asking])
        await client.aclose()
        await asyncio.sleep(0.2)  # in which the server hears of it
    if stop:
        await asyncio.get_running_loop().run_in_executor(None, running.stop)
    await asyncio.wait([asking])
    if not asking.cancelled():
        asking.exception()
    await client.aclose()


def _became(running: Running, name: str) -> str:
    lines = running.wrote(name)
    if "CancelledError" in lines:
        return CANCELS
    return WAITS if "end" in lines else DROPS
