import goods
from anyio import from_thread
from starlette.applications import Starlette
from starlette.middleware import Middleware
from starlette.middleware.gzip import GZipMiddleware
from starlette.responses import JSONResponse, PlainTextResponse, RedirectResponse, StreamingResponse
from starlette.routing import Route

from dupeproof.http import IdempotencyMiddleware


async def order(request):
    return JSONResponse(await goods.order_async(await request.json()), 201)


def order_sync(request):
    """In a thread, from which the body is asked for in the event loop."""
    return JSONResponse(goods.order(from_thread.run(request.json)), 201)


async def moved(request):
    return RedirectResponse("/orders/", 307)


async def text(request):
    return PlainTextResponse(goods.text(await request.json()))


async def stream(request):
    return StreamingResponse(goods.pieces_async(await request.json()), media_type="text/plain")


async def events(request):
    return StreamingResponse(goods.pieces_async(await request.json()), media_type="text/event-stream")


async def ready(request):
    return PlainTextResponse("ready")


app = Starlette(
    routes=[
        Route("/orders/", order, methods=["POST"]),
        Route("/sync/", order_sync, methods=["POST"]),
        Route("/moved/", moved, methods=["POST"]),
        Route("/text/", text, methods=["POST"]),
        Route("/stream/", stream, methods=["POST"]),
        Route("/events/", events, methods=["POST"]),
        Route("/ready", ready),
    ],
    middleware=[Middleware(GZipMiddleware), Middleware(IdempotencyMiddleware, **goods.OPTIONS)],
)
