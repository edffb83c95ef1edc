# ruff: noqa: E402 - Django wants its settings before it is imported
import json

import goods
import site_settings

site_settings.configure(__name__)

from django.http import HttpResponse, JsonResponse, StreamingHttpResponse
from django.urls import path


def order(request):
    return JsonResponse(goods.order(json.loads(request.body)), status=201)


async def order_async(request):
    return JsonResponse(await goods.order_async(json.loads(request.body)), status=201)


def moved(request):
    return HttpResponse(status=307, headers={"Location": "/orders/"})


def text(request):
    return HttpResponse(goods.text(json.loads(request.body)), content_type="text/plain")


def stream(request):
    return StreamingHttpResponse(site_settings.pieces(json.loads(request.body)), content_type="text/plain")


def events(request):
    return StreamingHttpResponse(
        site_settings.pieces(json.loads(request.body)), content_type="text/event-stream"
    )


def ready(request):
    return HttpResponse("ready")


urlpatterns = [
    path("orders/", order_async if goods.IS_ASGI else order),
    path("sync/", order),
    path("moved/", moved),
    path("text/", text),
    path("stream/", stream),
    path("events/", events),
    path("ready", ready),
]
app = site_settings.application()
