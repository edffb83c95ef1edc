"""For single routes of FastAPI, and for its OpenAPI document."""

import asyncio
import inspect
from collections.abc import Callable, Iterable
from email.message import EmailMessage
from typing import Annotated, Any, Unpack
from urllib.parse import urlencode
from weakref import WeakSet

from dupeproof import defaults
from dupeproof.core import callables
from dupeproof.core.durations import Duration
from dupeproof.core.protocols import AsyncStore
from dupeproof.errors import ConfigError
from dupeproof.guards import AsyncOnce
from dupeproof.http.answers import Answer
from dupeproof.http.asgi import App, AsgiGuard, Values, concluded
from dupeproof.http.asgi_messages import Client, Message, Outlet, send_answer
from dupeproof.http.bodies import check_size
from dupeproof.http.detached import Detached
from dupeproof.http.exchange_async import AsyncExchange
from dupeproof.http.fingerprints import Head, form_digests
from dupeproof.http.handler_context import current
from dupeproof.http.keys import SHARED
from dupeproof.http.openapi import document
from dupeproof.http.problems import Refused, problem
from dupeproof.http.request_policy_async import AsyncRequestPolicy
from dupeproof.http.rules import Options, Scope
from dupeproof.http.teardown import warn_of_route
from dupeproof.stores.clients import StoreClient

try:
    from fastapi import Depends, HTTPException, Request
    from fastapi.requests import HTTPConnection
    from fastapi.routing import APIRoute
    from starlette.datastructures import FormData, UploadFile
    from starlette.responses import Response
    from starlette.types import Receive, Send
    from starlette.types import Scope as AsgiScope
except ModuleNotFoundError as exc:
    raise ModuleNotFoundError(
        "dupeproof.http.fastapi needs FastAPI, which is not installed; run: pip install fastapi",
        name=exc.name,
    ) from exc

__all__ = ["document", "drain", "idempotent", "idempotent_route"]

_TURN = "dupeproof.http.turn"
_drained: WeakSet[Detached] = WeakSet()
"""Of all guards made here: routes do not see that their app is shut down."""


async def drain() -> None:
    """Wait for handlers whose clients have gone, each for at most its `drain`; for the end of your lifespan.

        @asynccontextmanager
        async def lifespan(app):
            yield
            await drain()

    Some servers, granian among them, end without waiting for them. The middleware does it by itself.
    """
    await asyncio.gather(*(each.drain() for each in list(_drained)))


def _detached(drain: Duration) -> Detached:
    made = Detached(drain)
    _drained.add(made)
    return made


def idempotent_route(
    *,
    store: str | StoreClient | AsyncStore | AsyncOnce,
    scope: Scope,
    detach: bool = True,
    drain: Duration = defaults.HANDLER_DRAIN,
    **options: Unpack[Options],
) -> type[APIRoute]:
    """A class of routes that are guarded, with the arguments of the middleware.

        router = APIRouter(route_class=idempotent_route(store="redis://…", scope=lambda request: request.user.id))

    The guard stands before the dependencies of the route. If those are what knows the caller, take `idempotent`. Call
    `drain` at the end of the app's lifespan.
    """
    policy = AsyncRequestPolicy(store, scope, options)
    guard = AsgiGuard(policy, _detached(drain) if detach else None)

    class IdempotentRoute(APIRoute):
        def __init__(self, *args: Any, **kwargs: Any) -> None:
            super().__init__(*args, **kwargs)
            if policy.rules.methods & (self.methods or set()):
                warn_of_route(self)

        async def handle(self, scope: AsgiScope, receive: Receive, send: Send) -> None:
            await guard(super().handle, scope, receive, send)

    return IdempotentRoute


def idempotent(
    *,
    store: str | StoreClient | AsyncStore | AsyncOnce,
    scope: Callable[..., Any] | Scope,
    detach: bool = True,
    drain: Duration = defaults.HANDLER_DRAIN,
    **options: Unpack[Options],
) -> Callable[..., Any]:
    """A dependency that guards its route, behind authentication, with the arguments of the middleware.

        guard = Depends(idempotent(store="redis://…", scope=current_user_id))

        @app.post("/orders", dependencies=[guard])
        async def order(new: NewOrder): ...

    `scope` may be a dependency itself, such as one that knows the user: it comes first, for retries too, and what it raises
    is answered as always. So do the dependencies that stand before this one. A function with one parameter that has no
    annotation is given the request, as elsewhere. A body that does not validate is refused by FastAPI, and its key can be
    used with a better one. Call `drain` at the end of the app's lifespan.
    """
    guard = _Guard(AsyncRequestPolicy(store, SHARED, options), _detached(drain) if detach else None)
    owner_of = _dependency(scope)

    async def guarded(request: HTTPConnection, owner: Annotated[Any, Depends(owner_of)]) -> None:
        if isinstance(request, Request) and guard.policy.wants(request.method, request):
            try:
                await guard.enter(request, owner)
            except Refused as refused:
                answer = problem(refused.code, the_key=guard.policy.rules.the_key)
                raise _turn_of(request, guard).answered(answer) from refused

    return guarded


def _dependency(scope: Any) -> Callable[..., Any]:
    """The scope as FastAPI calls it: a function of the request, written as for the middleware, gets its annotation."""
    if scope is SHARED:
        return lambda: SHARED
    if not callable(scope):
        raise ConfigError(
            "scope= says whose key it is: a dependency, or a function from the request, that gives a stable id of the "
            "caller; or scope=SHARED if all callers may see each other's responses"
        )
    given: Callable[..., Any] = scope
    parameters = [*inspect.signature(given).parameters.values()]
    if len(parameters) != 1 or parameters[0].annotation is not inspect.Parameter.empty:
        return given
    if callables.is_async(given):

        async def owner_async(request: HTTPConnection) -> Any:
            return await given(request)

        return owner_async

    def owner(request: HTTPConnection) -> Any:
        return given(request)

    return owner


class _Guard:
    """What a dependency does with a request that has reached it."""

    def __init__(self, policy: AsyncRequestPolicy, detached: Detached | None) -> None:
        self.policy = policy
        self.detached = detached
        self._header = policy.rules.header.lower()

    def concerns(self, scope: Message) -> bool:
        """Whether this request may have a key, as far as is known before its route is."""
        rules = self.policy.rules
        if scope["method"] not in rules.methods:
            return False
        name = self._header.encode("latin-1")
        return (
            rules.required or rules.find_key is not None or any(each == name for each, _ in scope["headers"])
        )

    async def enter(self, request: Request, owner: object) -> None:
        """Claim the key, if there is one; from here on the response is held back."""
        if not self.concerns(request.scope):
            return
        turn = _turn_of(request, self)
        policy, headers = self.policy, Values(request.scope["headers"])
        key = policy.find_key(headers(self._header), request)
        if key is None:
            return
        whole_key = policy.whole_key(owner, key)
        if whole_key is None:
            turn.unguarded = policy.unguarded
            return
        if turn.exchange is not None or policy.is_inner(request.scope, whole_key):
            return
        content_type = headers.last(b"content-type")
        head = Head(
            request.method, request.scope["path"], request.scope.get("query_string", b""), content_type
        )
        compared = policy.compared(request, head, headers, await _body(request, policy.rules.request_limit))
        exchange = policy.exchange(whole_key, compared)
        answer = await exchange.begin(headers.text(b"accept-encoding"))
        if answer is not None:
            raise turn.answered(await policy.authorized(request, answer))
        turn.enter(policy, exchange, hides=self.detached is not None)


async def _body(request: Request, limit: int) -> Iterable[bytes]:
    """What FastAPI has read already: the bytes, or the form that it made of them."""
    form = getattr(request, "_form", None)
    if not isinstance(form, FormData):
        body = await request.body()
        check_size(len(body), limit)
        return (body,)
    fields = [(name, value) for name, value in form.multi_items() if isinstance(value, str)]
    files = [(name, value) for name, value in form.multi_items() if isinstance(value, UploadFile)]
    check_size(sum(file.size or 0 for _, file in files), limit)
    read = [((name, file.filename, file.content_type), [await _content(file)]) for name, file in files]
    return form_digests(fields, read)


async def _content(file: UploadFile) -> bytes:
    await file.seek(0)
    content = await file.read()
    await file.seek(0)
    return content


class _Signal(HTTPException):
    """Ends the dependencies of a route before it has run.

    They are ended by an exception, and by one of this kind, which those with `yield` know and raise again. Of others they
    make an error, or FastAPI does not end them. No app has a handler of its own for the status.
    """

    def __init__(self) -> None:
        super().__init__(200, "this is no error, and the guard handles it: raise it again")


class _Answered(_Signal):
    """The route is not to run: there is an answer."""


async def _respond(_: Request, __: Exception) -> Response:
    """In whose place the answer is sent."""
    return Response()


class _Turn:
    """One request on its way through the router, and its response on the way back."""

    def __init__(self, receive: Receive, send: Send) -> None:
        self.client = Client(receive, send, hides=False)
        self.exchange: AsyncExchange | None = None
        self.unguarded: Callable[[int], None] | None = None
        self._receive = receive
        self._outlet: Outlet | None = None
        self._answer: Answer | None = None

    def answered(self, answer: Answer) -> _Answered:
        """To be raised: the answer is sent, whatever dependencies with `yield` make of the exception that ends them."""
        self._answer = answer
        return _Answered()

    def enter(self, policy: AsyncRequestPolicy, exchange: AsyncExchange, *, hides: bool) -> None:
        self.exchange = exchange
        self.client.hides = hides
        self._outlet = Outlet(exchange, self.client, policy.rules)
        current.set(exchange.handling)

    async def receive(self) -> Message:
        return await (self._receive() if self._outlet is None else self.client.receive())

    async def send(self, message: Message) -> None:
        if self._answer is not None:
            if message["type"] == "http.response.start":
                await send_answer(self.client.send, self._answer)
            return
        if self._outlet is not None:
            await self._outlet(message)
            return
        if self.unguarded is not None and message["type"] == "http.response.start":
            self.unguarded(message["status"])
        await self.client.send(message)

    @property
    def streams(self) -> bool:
        return self._outlet is None or self._outlet.streams

    async def run(self, app: App, scope: Message) -> None:
        token = current.set(current.get())  # what is set meanwhile does not outlast the request
        try:
            try:
                await app(scope, self.receive, self.send)
            finally:
                if self._outlet is not None:
                    await self._outlet.close()
        except BaseException as exc:
            if self.exchange is None or await concluded(self.exchange, self.client, exc):
                raise
        else:
            if self.exchange is not None:
                await concluded(self.exchange, self.client, None)
        finally:
            current.reset(token)


class _Turns:
    """Around the routes of an app: where a dependency finds the response of its request."""

    def __init__(self, app: App) -> None:
        self._app = app
        self.guards: list[_Guard] = []

    async def __call__(self, scope: Message, receive: Receive, send: Send) -> None:
        guards = [guard for guard in self.guards if guard.concerns(scope)] if scope["type"] == "http" else ()
        if guards:
            await self.take(guards[0], self._app, scope, receive, send)
        else:
            await self._app(scope, receive, send)

    async def take(self, guard: _Guard, app: App, scope: Message, receive: Receive, send: Send) -> None:
        turn = scope[_TURN] = _Turn(receive, send)
        work = turn.run(app, scope)
        if guard.detached is None:
            await work
            return
        client = turn.client
        await guard.detached.run(work, left=client.leave, until=lambda: turn.streams, waits=client.has_left)


class _Again(_Signal):
    """The route is to be entered once more, now that its response can be held back."""


def _turn_of(request: Request, guard: _Guard) -> _Turn:
    """A dependency comes to know its app with its first request, and that one has to enter its route a second time."""
    scope = request.scope
    router = scope["app"].router
    if not isinstance(router.middleware_stack, _Turns):
        router.middleware_stack = _Turns(router.middleware_stack)
    turns = router.middleware_stack
    if guard not in turns.guards:
        turns.guards.append(guard)
    # The way of errors is the way back to where routes are entered.
    handlers, _ = scope["starlette.exception_handlers"]
    handlers[_Answered] = _respond
    turn = scope.get(_TURN)
    if turn is None:

        async def enter_again(request: Request, _: Exception) -> Any:
            body = await _raw_body(request)
            pieces = [{"type": "http.request", "body": body, "more_body": False}]

            async def again(scope: AsgiScope, receive: Receive, send: Send) -> None:
                async def receive_again() -> Message:
                    return pieces.pop() if pieces else await receive()

                await turns.take(guard, scope["route"].handle, scope, receive_again, send)

            return again

        handlers[_Again] = enter_again
        raise _Again
    assert isinstance(turn, _Turn)
    return turn


async def _raw_body(request: Request) -> bytes:
    """The bytes of the body, or of the form that was made of them."""
    form = getattr(request, "_form", None)
    if not isinstance(form, FormData):
        return await request.body()
    head = EmailMessage()
    head["content-type"] = request.headers.get("content-type", "")
    if head.get_content_type() != "multipart/form-data":
        return urlencode([(name, str(value)) for name, value in form.multi_items()]).encode()
    boundary, body = (head.get_boundary() or "").encode("latin-1"), b""
    for name, value in form.multi_items():
        described = f'Content-Disposition: form-data; name="{_quoted(name)}"'
        content = value.encode() if isinstance(value, str) else await _content(value)
        if not isinstance(value, str):
            others = [each for each in value.headers.items() if each[0] != "content-disposition"]
            described += f'; filename="{_quoted(value.filename or "")}"'
            described += "".join(f"\r\n{each}: {text}" for each, text in others)
        body += b"--%b\r\n%b\r\n\r\n%b\r\n" % (boundary, described.encode(), content)
    return body + b"--%b--\r\n" % boundary


def _quoted(text: str) -> str:
    return text.replace("\\", "\\\\").replace('"', '\\"')
