"""The shop on django-ninja, under WSGI and ASGI: operations of either kind, with schemas, behind its authentication."""

import asyncio
import os
import time

import shop
from django.conf import settings
from django.core.asgi import get_asgi_application
from django.core.wsgi import get_wsgi_application
from django.http import HttpResponse
from django.urls import path
from shop_django import answer

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


def answered(kind, name):
    if kind == "refused":
        shop.ran(name)
        raise HttpError(403, "refused")
    return answer(kind, name, in_loop=IS_ASYNC)


if IS_ASYNC:

    @api.post("/orders", response={201: Made})
    @idempotent
    async def order(request, order: Order, response: HttpResponse):
        await asyncio.sleep(began(order))
        return made(order, response)

    @router.post("/{kind}")
    @idempotent
    async def kind(request, kind: str, order: Order):
        return answered(kind, order.name)

else:

    @api.post("/orders", response={201: Made})
    @idempotent
    def order(request, order: Order, response: HttpResponse):
        time.sleep(began(order))
        return made(order, response)

    @router.post("/{kind}")
    @idempotent
    def kind(request, kind: str, order: Order):
        return answered(kind, order.name)


def runs(request, name):
    return HttpResponse(str(shop.count(name)))


api.add_router("", router)
urlpatterns = [path("runs/<name>", runs), path("", api.urls)]
app = get_asgi_application() if IS_ASYNC else get_wsgi_application()
