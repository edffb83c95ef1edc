"""The shop on Django REST framework, under WSGI and ASGI: its own authentication, functions, a viewset."""

import os
import time

import shop
from django.conf import settings
from django.core.asgi import get_asgi_application
from django.core.wsgi import get_wsgi_application
from django.http import HttpResponse
from django.urls import path
from shop_django import answer

IS_ASGI = os.environ.get("SHOP_ASYNC") == "1"

settings.configure(
    ALLOWED_HOSTS=["*"],
    DEBUG=False,
    ROOT_URLCONF=__name__,
    SECRET_KEY="shop",
    LOGGING_CONFIG=None,
    MIDDLEWARE=[],
    REST_FRAMEWORK={
        "DEFAULT_AUTHENTICATION_CLASSES": [],
        "DEFAULT_RENDERER_CLASSES": ["rest_framework.renderers.JSONRenderer"],
        "UNAUTHENTICATED_USER": None,
    },
)

from rest_framework.authentication import BaseAuthentication  # noqa: E402 - needs the settings
from rest_framework.decorators import api_view, authentication_classes  # noqa: E402
from rest_framework.exceptions import NotAuthenticated, PermissionDenied  # noqa: E402
from rest_framework.response import Response  # noqa: E402
from rest_framework.viewsets import ViewSet  # noqa: E402

from dupeproof.http.drf import Idempotent  # noqa: E402

idempotent = Idempotent(**{**shop.OPTIONS, "scope": lambda request: request.user})


class ByHeader(BaseAuthentication):
    """Whoever it is, DRF alone knows: Django's request has no user."""

    def authenticate(self, request):
        name = shop.user_of(request)
        return (name, None) if name else None


class Orders(ViewSet):
    authentication_classes = (ByHeader,)

    @idempotent
    def create(self, request):
        if request.user is None:
            raise NotAuthenticated
        order = request.data
        slow = not (shop.SLOW_ONCE and shop.count(order["name"]))
        shop.ran(order["name"])
        time.sleep(order.get("seconds", 0) if slow else 0)
        made = {"name": order["name"], "run": shop.count(order["name"]), "at": time.time_ns()}
        return Response(made, status=201, headers={"Location": f"/orders/{order['name']}"})


@api_view(["POST"])
@authentication_classes([ByHeader])
@idempotent
def kind(request, kind):
    name = request.data["name"]
    if kind == "refused":
        shop.ran(name)
        raise PermissionDenied
    # What a view of DRF's kind is to have kept comes from a plain iterator, under ASGI too.
    return answer(kind, name, in_loop=IS_ASGI, streams_in_loop=IS_ASGI and kind != "stream")


def runs(request, name):
    return HttpResponse(str(shop.count(name)))


urlpatterns = [
    path("runs/<name>", runs),
    path("orders", Orders.as_view({"post": "create"})),
    path("<kind>", kind),
]
app = get_asgi_application() if IS_ASGI else get_wsgi_application()
