# ruff: noqa: E402 - Django wants its settings before it is imported
"""Django REST framework. Its views are sync, under ASGI too: each kind of them has a route."""

import goods
import site_settings

site_settings.configure(__name__, guarded_by_middleware=False, apps=("rest_framework",))

from django.http import HttpResponse, StreamingHttpResponse
from django.urls import path
from rest_framework.decorators import action, api_view
from rest_framework.response import Response
from rest_framework.views import APIView
from rest_framework.viewsets import ViewSet

from dupeproof.http.drf import Idempotent

idempotent = Idempotent(**goods.OPTIONS)


@api_view(["POST"])
@idempotent
def order(request):
    return Response(goods.order(request.data), status=201)


@api_view(["POST"])
@idempotent
def moved(request):
    return Response(status=307, headers={"Location": "/orders/"})


class Text(APIView):
    @idempotent
    def post(self, request):
        return HttpResponse(goods.text(request.data), content_type="text/plain")


class Pieces(ViewSet):
    @action(detail=False, methods=["post"])
    @idempotent
    def stream(self, request):
        return StreamingHttpResponse(site_settings.pieces(request.data), content_type="text/plain")

    @action(detail=False, methods=["post"])
    @idempotent
    def events(self, request):
        return StreamingHttpResponse(site_settings.pieces(request.data), content_type="text/event-stream")


@api_view(["GET"])
def ready(request):
    return Response("ready")


urlpatterns = [
    path("orders/", order),
    path("moved/", moved),
    path("text/", Text.as_view()),
    path("stream/", Pieces.as_view({"post": "stream"})),
    path("events/", Pieces.as_view({"post": "events"})),
    path("ready", ready),
]
app = site_settings.application()
