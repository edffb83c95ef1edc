"""The shop on Starlette, for uvicorn; SHOP_AROUND puts a middleware of Starlette's own inside or outside of ours."""

import asyncio
import contextlib
import os
import sqlite3
import time

import psycopg
import shop
from starlette.applications import Starlette
from starlette.background import BackgroundTask
from starlette.middleware import Middleware
from starlette.middleware.base import BaseHTTPMiddleware
from starlette.middleware.gzip import GZipMiddleware
from starlette.responses import FileResponse, PlainTextResponse, Response, StreamingResponse
from starlette.routing import Route, WebSocketRoute

from dupeproof.http import IdempotencyMiddleware, idempotency


async def order(request):
    if shop.is_stranger(request):
        status, headers, body = shop.STRANGER
        return Response(body, status, headers)
    name, seconds = shop.name_and_seconds(await request.body())
    shop.ran(name)
    await asyncio.sleep(seconds)
    status, headers, body = shop.made(name)
    return Response(body, status, headers)


def ledger(request):
    """Writes in its own transaction, commits, and then takes its time."""
    name, seconds = request.query_params["name"], float(request.query_params["seconds"])
    sqlite = shop.STORE.startswith("sqlite")
    connection = (
        sqlite3.connect(shop.STORE.removeprefix("sqlite:///")) if sqlite else psycopg.connect(shop.STORE)
    )
    with contextlib.closing(connection):
        with connection, idempotency.transaction(connection) as keep:
            connection.execute("CREATE TABLE IF NOT EXISTS ledger (name TEXT)")
            connection.execute(f"INSERT INTO ledger VALUES ('{name}')")
            response = keep(PlainTextResponse("entered", 201))
        shop.ran(name)
        time.sleep(seconds)
    return response


async def kind(request):
    kind = request.path_params["kind"]
    name, _ = shop.name_and_seconds(await request.body())
    shop.ran(name)
    if kind in shop.CHUNKS:
        return StreamingResponse(iter(shop.CHUNKS[kind]), headers=shop.STREAM_HEADERS[kind])
    if kind == "trickle":
        return StreamingResponse(shop.trickle())
    if kind == "large":
        return Response(b"x" * shop.LARGE)
    if kind == "broken":
        raise RuntimeError("broken")
    if kind == "file":
        return FileResponse(shop.FILE)
    if kind == "late":
        return PlainTextResponse("done", background=BackgroundTask(shop.late))
    status, headers, body = shop.plain(kind, name)
    response = Response(body, status)
    for header, value in headers:
        response.headers.append(header, value)
    return response


async def runs(request):
    return PlainTextResponse(str(shop.count(request.path_params["name"])))


async def echo(websocket):
    await websocket.accept()
    await websocket.send_text(await websocket.receive_text())
    await websocket.close()


class Nothing(BaseHTTPMiddleware):
    async def dispatch(self, request, call_next):
        return await call_next(request)


def middleware():
    ours = Middleware(IdempotencyMiddleware, **shop.OPTIONS)
    return {
        "": [ours],
        "outside": [Middleware(Nothing), ours],
        "inside": [ours, Middleware(Nothing)],
        "gzip-outside": [Middleware(GZipMiddleware, minimum_size=10), ours],
        "gzip-inside": [ours, Middleware(GZipMiddleware, minimum_size=10)],
    }[os.environ.get("SHOP_AROUND", "")]


@contextlib.asynccontextmanager
async def lifespan(_app):
    yield


app = Starlette(
    routes=[
        Route("/orders", order, methods=["POST"]),
        Route("/runs/{name}", runs),
        Route("/ledger", ledger, methods=["POST"]),
        WebSocketRoute("/echo", echo),
        Route("/{kind}", kind, methods=["POST"]),
    ],
    middleware=middleware(),
    lifespan=lifespan,
)
