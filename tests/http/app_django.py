"""The shop on Django, under WSGI and ASGI; SHOP_FORM chooses between the middleware and the decorator on views."""

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
DECORATED = os.environ.get("SHOP_FORM") == "decorator"

settings.configure(
    ALLOWED_HOSTS=["*"],
    DEBUG=False,
    ROOT_URLCONF=__name__,
    SECRET_KEY="shop",
    LOGGING_CONFIG=None,
    DUPEPROOF_HTTP={**shop.OPTIONS, "scope": "shop.user_of"},
    MIDDLEWARE=[] if DECORATED else ["dupeproof.http.django.IdempotencyMiddleware"],
)

from dupeproof.http.django import Idempotent  # noqa: E402 - needs the settings


def guarded(view):
    return Idempotent(**shop.OPTIONS)(view) if DECORATED else view


def answered(status, headers, body):
    return HttpResponse(body, status=status, headers=headers)


def made(name):
    return answered(*shop.made(name))


@guarded
def order(request):
    if shop.is_stranger(request):
        return answered(*shop.STRANGER)
    name, seconds = shop.name_and_seconds(request.body)
    shop.ran(name)
    time.sleep(seconds)
    return made(name)


@guarded
async def order_async(request):
    if shop.is_stranger(request):
        return answered(*shop.STRANGER)
    name, seconds = shop.name_and_seconds(request.body)
    shop.ran(name)
    await asyncio.sleep(seconds)
    return made(name)


def _answer(request, kind):
    name, _ = shop.name_and_seconds(request.body)
    return answer(kind, name, in_loop=IS_ASYNC)


@guarded
def kind(request, kind):
    return _answer(request, kind)


@guarded
async def kind_async(request, kind):
    return _answer(request, kind)


def runs(request, name):
    return HttpResponse(str(shop.count(name)))


urlpatterns = [
    path("runs/<name>", runs),
    path("orders", order_async if IS_ASYNC else order),
    path("<kind>", kind_async if IS_ASYNC else kind),
]
app = get_asgi_application() if IS_ASYNC else get_wsgi_application()
