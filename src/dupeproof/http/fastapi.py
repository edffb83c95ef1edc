"""For single routes of FastAPI, and for its OpenAPI document."""

from typing import Any, Unpack

from dupeproof.core.protocols import AsyncStore
from dupeproof.guards import AsyncOnce
from dupeproof.http._async.desk import AsyncDesk
from dupeproof.http.asgi import AsgiGuard
from dupeproof.http.openapi import document
from dupeproof.http.rules import Options, Scope
from dupeproof.http.teardown import warn_of_route

try:
    from fastapi.routing import APIRoute
    from starlette.types import Receive, Send
    from starlette.types import Scope as AsgiScope
except ModuleNotFoundError as exc:
    raise ModuleNotFoundError(
        "dupeproof.http.fastapi needs FastAPI, which is not installed; run: pip install fastapi",
        name=exc.name,
    ) from exc

__all__ = ["document", "idempotent_route"]


def idempotent_route(
    *,
    store: str | AsyncStore | AsyncOnce,
    scope: Scope,
    detach: bool = False,
    **options: Unpack[Options],
) -> type[APIRoute]:
    """A class of routes that are guarded, with the arguments of the middleware.

    router = APIRouter(route_class=idempotent_route(store="redis://…", scope=lambda request: request.user.id))
    """
    desk = AsyncDesk(store, scope, options)
    guard = AsgiGuard(desk, detach=detach)

    class IdempotentRoute(APIRoute):
        def __init__(self, *args: Any, **kwargs: Any) -> None:
            super().__init__(*args, **kwargs)
            if desk.rules.methods & (self.methods or set()):
                warn_of_route(self)

        async def handle(self, scope: AsgiScope, receive: Receive, send: Send) -> None:
            await guard(super().handle, scope, receive, send)

    return IdempotentRoute
