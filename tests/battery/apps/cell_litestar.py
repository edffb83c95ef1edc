from dataclasses import asdict, dataclass

import goods
from litestar import Litestar, Response, get, post
from litestar.config.compression import CompressionConfig
from litestar.params import JSONBody
from litestar.response import Stream

from dupeproof.http import IdempotencyMiddleware


@dataclass
class Order:
    name: str
    seconds: float = 0


@post("/orders/")
async def order(data: JSONBody[Order]) -> dict[str, object]:
    return await goods.order_async(asdict(data))


@post("/sync/", sync_to_thread=True)
def order_sync(data: JSONBody[Order]) -> dict[str, object]:
    return goods.order(asdict(data))


@post("/moved/")
async def moved() -> Response[None]:
    return Response(None, status_code=307, headers={"Location": "/orders/"})


@post("/text/", status_code=200)
async def text(data: JSONBody[Order]) -> Response[str]:
    return Response(goods.text(asdict(data)), media_type="text/plain")


@post("/stream/", status_code=200)
async def stream(data: JSONBody[Order]) -> Stream:
    return Stream(goods.pieces_async(asdict(data)), media_type="text/plain")


@post("/events/", status_code=200)
async def events(data: JSONBody[Order]) -> Stream:
    return Stream(goods.pieces_async(asdict(data)), media_type="text/event-stream")


@get("/ready", sync_to_thread=False)
def ready() -> str:
    return "ready"


app = IdempotencyMiddleware(
    Litestar(
        [order, order_sync, moved, text, stream, events, ready],
        compression_config=CompressionConfig(backend="gzip"),
    ),
    **goods.OPTIONS,
)
