"""No framework and no guard: an app that writes down what its server tells it, to see how the servers differ."""

import asyncio
import contextlib
import json
import os
import time

import journal

_tasks = set()


async def asgi(scope, receive, send):
    if scope["type"] == "lifespan":
        await _live(receive, send)
        return
    body, more = b"", True
    while more:
        message = await receive()
        body += message.get("body", b"")
        more = message.get("more_body", False)
    if scope["path"] == "/ready":
        await _answer(send, b"ready")
        return
    order = json.loads(body)
    name, seconds = order["name"], order["seconds"]
    if order.get("detached"):
        task = asyncio.ensure_future(_sleep(name, seconds))
        _tasks.add(task)
        task.add_done_callback(_tasks.discard)
        waiting = asyncio.shield(task)
    else:
        waiting = _sleep(name, seconds)
    listening = asyncio.ensure_future(_listen(name, receive))
    try:
        await waiting
    finally:
        listening.cancel()
    try:
        await _answer(send, b"done")
    except Exception as exc:
        journal.wrote(name, f"send {type(exc).__name__}")
        raise


async def _sleep(name, seconds):
    journal.wrote(name, "begin")
    try:
        await asyncio.sleep(seconds)
    except BaseException as exc:
        journal.wrote(name, type(exc).__name__)
        raise
    journal.wrote(name, "end")


async def _listen(name, receive):
    journal.wrote(name, (await receive())["type"])


async def _answer(send, body):
    headers = [(b"content-length", str(len(body)).encode())]
    await send({"type": "http.response.start", "status": 200, "headers": headers})
    await send({"type": "http.response.body", "body": body})


async def _live(receive, send):
    with contextlib.suppress(asyncio.CancelledError):
        while True:
            message = await receive()
            if message["type"] == "lifespan.startup":
                await send({"type": "lifespan.startup.complete"})
            else:
                journal.wrote("lifespan", f"{message['type']} with {len(_tasks)} tasks")
                await send({"type": "lifespan.shutdown.complete"})
                return
    journal.wrote("lifespan", "cancelled")


def wsgi(environ, start_response):
    body = b"ready"
    if environ["PATH_INFO"] != "/ready":
        order = json.loads(environ["wsgi.input"].read(int(environ["CONTENT_LENGTH"])))
        journal.wrote(order["name"], "begin")
        try:
            time.sleep(order["seconds"])
        except BaseException as exc:
            journal.wrote(order["name"], type(exc).__name__)
            raise
        journal.wrote(order["name"], "end")
        body = b"done"
    start_response("200 OK", [("Content-Length", str(len(body)))])
    return [body]


app = asgi if os.environ["BATTERY_INTERFACE"] == "asgi" else wsgi
