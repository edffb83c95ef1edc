"""What the apps of the battery have in common: their options, and handlers that write down when they begin and end.

Every app has these routes:
    POST /orders/   takes its time, then answers; async where the framework is
    POST /sync/     the same as a sync handler, where the framework has both
    POST /moved/    307 to /orders/
    POST /text/     an answer that is worth compressing
    POST /stream/   pieces of text, for much longer than a client stays; /events/ as server-sent events
    GET /ready
and redirects /orders to /orders/ if that is its framework's habit.
"""

import asyncio
import os
import time
from collections.abc import AsyncIterator, Iterator, Mapping
from typing import Any

from journal import wrote

Asked = Mapping[str, Any]
"""The JSON of a request: a name, and the seconds to take."""
Made = dict[str, object]
LEASE = 1.5
STREAM_SECONDS = 12
TICK = 0.1
TEXT = "All work and no play makes a dull response. " * 200


def caller(request):
    """The header, as Starlette, Django, Flask and the WSGI middleware all have it."""
    return request.headers["X-Caller"]


OPTIONS = {"store": os.environ["BATTERY_STORE"], "scope": caller, "lease": LEASE, "namespace": "battery"}
IS_ASGI = os.environ["BATTERY_INTERFACE"] == "asgi"


def order(asked: Asked) -> Made:
    """The whole of a sync handler: what it answers, with 201."""
    name, seconds = asked["name"], asked.get("seconds", 0)
    wrote(name, "begin")
    try:
        time.sleep(seconds)
    except BaseException as exc:
        wrote(name, type(exc).__name__)
        raise
    return _made(name)


async def order_async(asked: Asked) -> Made:
    name, seconds = asked["name"], asked.get("seconds", 0)
    wrote(name, "begin")
    try:
        await asyncio.sleep(seconds)
    except BaseException as exc:
        wrote(name, type(exc).__name__)
        raise
    return _made(name)


def text(asked: Asked) -> str:
    name = asked["name"]
    wrote(name, "begin")
    wrote(name, "end")
    return TEXT


def pieces(asked: Asked) -> Iterator[bytes]:
    name = asked["name"]
    wrote(name, "begin")
    try:
        for number in range(int(STREAM_SECONDS / TICK)):
            yield b"data: %d\n\n" % number
            time.sleep(TICK)
    finally:
        wrote(name, "closed")


async def pieces_async(asked: Asked) -> AsyncIterator[bytes]:
    name = asked["name"]
    wrote(name, "begin")
    try:
        for number in range(int(STREAM_SECONDS / TICK)):
            yield b"data: %d\n\n" % number
            await asyncio.sleep(TICK)
    finally:
        wrote(name, "closed")


def _made(name: str) -> Made:
    """Of two runs, no two answers are the same."""
    made = {"name": name, "at": time.time_ns()}
    wrote(name, "end")
    return made
