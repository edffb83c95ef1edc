# ruff: noqa: E402 - Django wants its settings before it is imported
import goods
import site_settings

site_settings.configure(__name__, guarded_by_middleware=False)

from django.http import HttpResponse, StreamingHttpResponse
from django.urls import path
from ninja import NinjaAPI, Schema

from dupeproof.http.ninja import Idempotent

idempotent = Idempotent(**goods.OPTIONS)

api = NinjaAPI(docs_url=None, openapi_url=None)


class Order(Schema):
    name: str
    seconds: float = 0


class Made(Schema):
    name: str
    at: int


@api.post("/sync/", response={201: Made})
@idempotent
def order(request, order: Order):
    return 201, goods.order(order.dict())


if goods.IS_ASGI:

    @api.post("/orders/", response={201: Made})
    @idempotent
    async def order_async(request, order: Order):
        return 201, await goods.order_async(order.dict())
else:
    api.post("/orders/", response={201: Made})(order)


@api.post("/moved/")
@idempotent
def moved(request, order: Order):
    return HttpResponse(status=307, headers={"Location": "/orders/"})


@api.post("/text/")
@idempotent
def text(request, order: Order):
    return HttpResponse(goods.text(order.dict()), content_type="text/plain")


@api.post("/stream/")
@idempotent
def stream(request, order: Order):
    return StreamingHttpResponse(site_settings.pieces(order.dict()), content_type="text/plain")


@api.post("/events/")
@idempotent
def events(request, order: Order):
    return StreamingHttpResponse(site_settings.pieces(order.dict()), content_type="text/event-stream")


@api.get("/ready")
def ready(request):
    return "ready"


urlpatterns = [path("", api.urls)]
app = site_settings.application()
