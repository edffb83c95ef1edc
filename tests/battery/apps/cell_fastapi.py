import goods
from fastapi import FastAPI, Response
from fastapi.responses import PlainTextResponse, RedirectResponse, StreamingResponse
from pydantic import BaseModel
from starlette.middleware.gzip import GZipMiddleware

from dupeproof.http import IdempotencyMiddleware


class Order(BaseModel):
    name: str
    seconds: float = 0


app = FastAPI()
app.add_middleware(IdempotencyMiddleware, **goods.OPTIONS)
app.add_middleware(GZipMiddleware)


@app.post("/orders/", status_code=201)
async def order(order: Order) -> dict[str, object]:
    return await goods.order_async(order.model_dump())


@app.post("/sync/", status_code=201)
def order_sync(order: Order) -> dict[str, object]:
    return goods.order(order.model_dump())


@app.post("/moved/")
def moved(order: Order) -> Response:
    return RedirectResponse("/orders/", 307)


@app.post("/text/")
def text(order: Order) -> Response:
    return PlainTextResponse(goods.text(order.model_dump()))


@app.post("/stream/")
async def stream(order: Order) -> Response:
    return StreamingResponse(goods.pieces_async(order.model_dump()), media_type="text/plain")


@app.post("/events/")
async def events(order: Order) -> Response:
    return StreamingResponse(goods.pieces_async(order.model_dump()), media_type="text/event-stream")


@app.get("/ready")
def ready() -> str:
    return "ready"
