"""The ASGI middleware: reads the request, lets it in once, and holds the response back until it is stored."""

from collections.abc import Awaitable, Callable
from typing import Unpack

from dupeproof.core.protocols import AsyncStore
from dupeproof.guards import AsyncOnce
from dupeproof.guards._async.runtime import settle
from dupeproof.http._async.desk import AsyncDesk
from dupeproof.http._async.exchange import AsyncExchange
from dupeproof.http.asgi_messages import Disconnected, Inlet, Message, Outlet, Receive, Send, send_answer
from dupeproof.http.bodies import announced_size
from dupeproof.http.detaching import detached
from dupeproof.http.handling import current
from dupeproof.http.problems import Refused, problem
from dupeproof.http.rules import Options, Scope
from dupeproof.http.teardown import routes_of, warn_of_late_teardown

try:
    from starlette.requests import Request
except ModuleNotFoundError as exc:
    raise ModuleNotFoundError(
        'dupeproof.http needs Starlette, which is not installed; run: pip install "dupeproof[http]"',
        name=exc.name,
    ) from exc

App = Callable[[Message, Receive, Send], Awaitable[None]]
_PAST_US = ("http.response.pathsend", "http.response.zerocopysend")
"""Extensions by which a body goes out that we do not see."""


class IdempotencyMiddleware:
    """Runs a request with an `Idempotency-Key` once, and answers its retries with the stored response.

        app.add_middleware(IdempotencyMiddleware, store="redis://…", scope=lambda request: request.user.id)

    `store` is a URL, a store or an `AsyncOnce`. `scope` says whose key it is: a function, sync or async, from Starlette's
    request to a stable id of the caller, not the token, not the address; or `SHARED`. `detach` lets a handler come to
    its end although its client has gone. The other options are those of `dupeproof.http.rules.Options`.
    """

    def __init__(
        self,
        app: App,
        *,
        store: str | AsyncStore | AsyncOnce,
        scope: Scope,
        detach: bool = False,
        **options: Unpack[Options],
    ) -> None:
        self._app = app
        self._desk = AsyncDesk(store, scope, options)
        self._guard = AsgiGuard(self._desk, detach=detach)

    async def __call__(self, scope: Message, receive: Receive, send: Send) -> None:
        if scope["type"] == "lifespan":
            await self._live(scope, receive, send)
        else:
            await self._guard(self._app, scope, receive, send)

    async def _live(self, scope: Message, receive: Receive, send: Send) -> None:
        warn_of_late_teardown(routes_of(scope.get("app", self._app)), self._desk.rules.methods)
        try:
            await self._app(scope, receive, send)
        finally:
            await self._desk.close()


class AsgiGuard:
    """What is done with every request, around whichever app it is for."""

    def __init__(self, desk: AsyncDesk, *, detach: bool) -> None:
        self._desk = desk
        self._detach = detach
        rules = desk.rules
        self._methods = rules.methods
        self._header = rules.header.lower().encode()
        # Most requests have no key, and where none is needed that is all there is to ask.
        self._only_with_header = not rules.required and rules.find_key is None

    def __call__(self, app: App, scope: Message, receive: Receive, send: Send) -> Awaitable[None]:
        """To be awaited. What is not to be guarded goes to the app as it is."""
        if scope["type"] != "http" or scope["method"] not in self._methods:
            return app(scope, receive, send)
        name = self._header
        values = [value for header, value in scope["headers"] if header == name]
        if not values and self._only_with_header:
            return app(scope, receive, send)
        request = Request(scope)
        if not self._desk.wants(scope["method"], request):
            return app(scope, receive, send)
        try:
            key = self._desk.find_key([value.decode("latin-1") for value in values], request)
        except Refused as refused:
            return send_answer(send, problem(refused.code, the_key=self._desk.rules.the_key))
        if key is None:
            return app(scope, receive, send)
        return self._guard(app, request, key, receive, send)

    async def _guard(self, app: App, request: Request, key: str, receive: Receive, send: Send) -> None:
        scope, desk = request.scope, self._desk
        inlet = Inlet(receive, desk.rules.request_limit, hides_disconnect=self._detach)
        try:
            owner = desk.owner(request)
            whole_key = desk.whole_key(owner if type(owner) is str else await settle(owner), key)
            if desk.is_inner(scope, whole_key):
                await app(scope, receive, send)
                return
            announced_size(_header(scope, b"content-length").decode("latin-1"), desk.rules.request_limit)
            if not inlet.take(await receive()):
                await inlet.read_on()
            compared = desk.compared(
                request,
                scope["method"],
                scope["path"],
                scope.get("query_string", b""),
                _header(scope, b"content-type"),
                inlet.chunks(),
            )
            exchange = desk.exchange(whole_key, compared)
            answer = await exchange.begin()
            if answer is not None:
                await send_answer(send, answer)
            elif self._detach:
                await detached(self._run(app, scope, inlet.moved(), send, exchange))
            else:
                await self._run(app, scope, inlet, send, exchange)
        except Refused as refused:
            await send_answer(send, problem(refused.code, the_key=desk.rules.the_key))
        except Disconnected:
            return
        finally:
            inlet.close()

    async def _run(self, app: App, scope: Message, inlet: Inlet, send: Send, exchange: AsyncExchange) -> None:
        extensions = scope.get("extensions")
        if extensions and not extensions.keys().isdisjoint(_PAST_US):
            scope["extensions"] = {name: value for name, value in extensions.items() if name not in _PAST_US}
        outlet = Outlet(exchange, send, self._desk.rules.response_limit)
        token = current.set(exchange.handling)
        try:
            await app(scope, inlet, outlet)
        except Exception as exc:
            if exchange.settled:
                raise
            answer = await exchange.failed(exc)
            if answer is not None:
                await send_answer(send, answer)
            if exchange.handling.done is None:
                raise
        except BaseException as exc:
            if not exchange.settled:
                await exchange.abandon(exc)
            raise
        else:
            if not exchange.settled:
                await exchange.abandon(Disconnected())
        finally:
            inlet.close()
            current.reset(token)


def _header(scope: Message, name: bytes) -> bytes:
    """The last one of this name, or nothing."""
    value: bytes = dict(scope["headers"]).get(name, b"")
    return value
