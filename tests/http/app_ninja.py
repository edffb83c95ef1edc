"""The shop on django-ninja, under WSGI and ASGI: operations of either kind, with schemas, behind its authentication."""

import asyncio
import os
import time

import shop
from django.conf import settings
from django.core.asgi import get_asgi_application
from django.core.wsgi import get_wsgi_application
from django.http import FileResponse, HttpResponse, StreamingHttpResponse
from django.urls import path

IS_ASYNC = os.environ.get("SHOP_ASYNC") == "1"

settings.configure(
    ALLOWED_HOSTS=["*"],
    DEBUG=False,
    ROOT_URLCONF=__name__,
    SECRET_KEY="shop",
    LOGGING_CONFIG=None,
    MIDDLEWARE=[],
)

from ninja import NinjaAPI, Router, Schema, Status  # noqa: E402 - needs the settings
from ninja.errors import HttpError  # noqa: E402

from dupeproof.http.ninja import Idempotent  # noqa: E402

idempotent = Idempotent(**{**shop.OPTIONS, "scope": lambda request: request.auth.name})


class Caller:
    def __init__(self, name):
        self.name = name


def by_header(request):
    name = shop.user_of(request)
    return Caller(name) if name else None


class Order(Schema):
    name: str
    seconds: float = 0


class Made(Schema):
    name: str
    run: int
    at: int


api = NinjaAPI(auth=by_header)
router = Router()


def made(order, response):
    response["Location"] = f"/orders/{order.name}"
    return Status(201, {"name": order.name, "run": shop.count(order.name), "at": time.time_ns()})


def began(order):
    """How long it will take."""
    slow = not (shop.SLOW_ONCE and shop.count(order.name))
    shop.ran(order.name)
    return order.seconds if slow else 0


async def _each(chunks):
    for chunk in chunks:
        yield chunk


async def _trickle():
    yield b"first"
    await asyncio.sleep(1.5)
    yield b"second"
    await asyncio.sleep(0.5)
    yield b"third"


def answer(kind, name):
    shop.ran(name)
    if kind in shop.CHUNKS:
        chunks = shop.CHUNKS[kind]
        return StreamingHttpResponse(
            _each(chunks) if IS_ASYNC else iter(chunks), headers=shop.STREAM_HEADERS[kind]
        )
    if kind == "trickle":
        return StreamingHttpResponse(_trickle() if IS_ASYNC else shop.trickle())
    if kind == "large":
        return HttpResponse(b"x" * shop.LARGE)
    if kind == "broken":
        raise RuntimeError("broken")
    if kind == "file":
        return HttpResponse(shop.FILE.read_bytes()) if IS_ASYNC else FileResponse(shop.FILE.open("rb"))
    if kind == "late":
        response = HttpResponse("done")
        response._resource_closers.append(shop.late)
        return response
    if kind == "refused":
        raise HttpError(403, "refused")
    status, headers, body = shop.plain(kind, name)
    response = HttpResponse(body, status=status)
    for header, value in headers:
        response[header] = (
            f"{response[header]}, {value}" if header == "X-Kept" and header in response else value
        )
    return response


if IS_ASYNC:

    @api.post("/orders", response={201: Made})
    @idempotent
    async def order(request, order: Order, response: HttpResponse):
        await asyncio.sleep(began(order))
        return made(order, response)

    @router.post("/{kind}")
    @idempotent
    async def kind(request, kind: str, order: Order):
        return answer(kind, order.name)

else:

    @api.post("/orders", response={201: Made})
    @idempotent
    def order(request, order: Order, response: HttpResponse):
        time.sleep(began(order))
        return made(order, response)

    @router.post("/{kind}")
    @idempotent
    def kind(request, kind: str, order: Order):
        return answer(kind, order.name)


def runs(request, name):
    return HttpResponse(str(shop.count(name)))


api.add_router("", router)
urlpatterns = [path("runs/<name>", runs), path("", api.urls)]
app = get_asgi_application() if IS_ASYNC else get_wsgi_application()
