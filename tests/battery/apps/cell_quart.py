import goods
from quart import Quart, Response, redirect, request
from starlette.middleware.gzip import GZipMiddleware

from dupeproof.http import IdempotencyMiddleware

app = Quart(__name__)
# Quart compresses nothing itself. Ours is inside, so that what is stored is what the handler said.
app.asgi_app = GZipMiddleware(IdempotencyMiddleware(app.asgi_app, **goods.OPTIONS))


@app.post("/orders/")
async def order():
    return await goods.order_async(await request.get_json()), 201


@app.post("/sync/")
async def order_sync():
    """What Quart does with a handler that is sync, to which it would give no body."""
    return await app.ensure_async(goods.order)(await request.get_json()), 201


@app.post("/moved/")
async def moved():
    return redirect("/orders/", 307)


@app.post("/text/")
async def text():
    return Response(goods.text(await request.get_json()), mimetype="text/plain")


@app.post("/stream/")
async def stream():
    response = Response(goods.pieces_async(await request.get_json()), mimetype="text/plain")
    response.timeout = None
    return response


@app.post("/events/")
async def events():
    response = Response(goods.pieces_async(await request.get_json()), mimetype="text/event-stream")
    response.timeout = None
    return response


@app.get("/ready")
async def ready():
    return "ready"
