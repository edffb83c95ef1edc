"""The shop on Starlette, for uvicorn; SHOP_AROUND puts a middleware of Starlette's own inside or outside of ours."""

import asyncio
import contextlib
import os

import shop
from starlette.applications import Starlette
from starlette.background import BackgroundTask
from starlette.middleware import Middleware
from starlette.middleware.base import BaseHTTPMiddleware
from starlette.middleware.gzip import GZipMiddleware
from starlette.responses import FileResponse, PlainTextResponse, Response, StreamingResponse
from starlette.routing import Route, WebSocketRoute

from dupeproof.http import IdempotencyMiddleware


async def order(request):
    name, seconds = shop.name_and_seconds(await request.body())
    shop.ran(name)
    await asyncio.sleep(seconds)
    status, headers, body = shop.made(name)
    return Response(body, status, headers)


async def kind(request):
    kind = request.path_params["kind"]
    name, _ = shop.name_and_seconds(await request.body())
    shop.ran(name)
    if kind in shop.CHUNKS:
        media_type = "text/event-stream" if kind == "events" else "text/plain"
        return StreamingResponse(iter(shop.CHUNKS[kind]), media_type=media_type)
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
        WebSocketRoute("/echo", echo),
        Route("/{kind}", kind, methods=["POST"]),
    ],
    middleware=middleware(),
    lifespan=lifespan,
)
