"""The shop on FastAPI, guarded route by route; for uvicorn."""

import time

import shop
from fastapi import APIRouter, BackgroundTasks, FastAPI, Request
from fastapi.responses import FileResponse, PlainTextResponse, Response, StreamingResponse
from pydantic import BaseModel

from dupeproof.http.fastapi import idempotent_route


class Order(BaseModel):
    name: str
    seconds: float = 0


router = APIRouter(route_class=idempotent_route(**shop.OPTIONS))


@router.post("/orders")
def order(order: Order, request: Request) -> Response:
    if shop.is_stranger(request):
        status, headers, body = shop.STRANGER
        return Response(body, status, headers)
    shop.ran(order.name)
    time.sleep(order.seconds)
    status, headers, body = shop.made(order.name)
    return Response(body, status, headers)


def streams(kind):
    @router.post(f"/{kind}")
    def stream(order: Order) -> StreamingResponse:
        shop.ran(order.name)
        return StreamingResponse(iter(shop.CHUNKS[kind]), headers=shop.STREAM_HEADERS[kind])


for kind in shop.CHUNKS:
    streams(kind)


@router.post("/trickle")
def trickle(order: Order) -> StreamingResponse:
    return StreamingResponse(shop.trickle())


@router.post("/large")
def large(order: Order) -> Response:
    shop.ran(order.name)
    return Response(b"x" * shop.LARGE)


@router.post("/broken")
def broken(order: Order) -> None:
    shop.ran(order.name)
    raise RuntimeError("broken")


@router.post("/file")
def file(order: Order) -> FileResponse:
    shop.ran(order.name)
    return FileResponse(shop.FILE)


@router.post("/late", response_class=PlainTextResponse)
def late(order: Order, tasks: BackgroundTasks) -> str:
    shop.ran(order.name)
    tasks.add_task(shop.late)
    return "done"


@router.post("/{kind}")
def kind(kind: str, order: Order) -> Response:
    shop.ran(order.name)
    status, headers, body = shop.plain(kind, order.name)
    response = Response(body, status)
    for header, value in headers:
        response.headers.append(header, value)
    return response


@router.get("/runs/{name}", response_class=PlainTextResponse)
def runs(name: str) -> str:
    return str(shop.count(name))


app = FastAPI()
app.include_router(router)
