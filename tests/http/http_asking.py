"""Ask an ASGI app that runs in the test itself: for what has to be seen from inside."""

import httpx
from starlette.applications import Starlette
from starlette.responses import JSONResponse
from starlette.routing import Route

from dupeproof.http import SHARED, IdempotencyMiddleware

KEY = {"Idempotency-Key": "k"}


class Counter:
    """A handler that counts, and answers as it is told."""

    def __init__(self, response=None):
        self.runs = 0
        self.response = response or (lambda request: JSONResponse({"ok": True}))

    async def __call__(self, request):
        self.runs += 1
        response = self.response(request)
        return await response if hasattr(response, "__await__") else response


def guarded(handler, *, store="memory://", scope=SHARED, **options):
    async def endpoint(request):
        return await handler(request)

    methods = ["POST", "PATCH", "PUT", "DELETE", "GET"]
    app = Starlette(routes=[Route("/{path:path}", endpoint, methods=methods)])
    return IdempotencyMiddleware(app, store=store, scope=scope, **options)


def client_of(app):
    transport = httpx.ASGITransport(app=app, raise_app_exceptions=False)
    return httpx.AsyncClient(transport=transport, base_url="http://shop")


def asking(handler, **options):
    return client_of(guarded(handler, **options))


async def twice(client, **request):
    return [
        await client.request(**{"method": "POST", "url": "/", "headers": KEY, **request}) for _ in range(2)
    ]
