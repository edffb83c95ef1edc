"""The ASGI middleware: reads the request, lets it in once, and holds the response back until it is stored."""

import asyncio
from collections.abc import Awaitable, Callable, Iterable, Mapping
from typing import Any, Unpack

from dupeproof import defaults
from dupeproof.core import callables
from dupeproof.core.durations import Duration
from dupeproof.core.protocols import AsyncStore
from dupeproof.errors import ConfigError
from dupeproof.guards import AsyncOnce
from dupeproof.guards.runtime_async import awaited
from dupeproof.http.answers import Answer
from dupeproof.http.asgi_messages import (
    Client,
    Disconnected,
    Inlet,
    Message,
    Outlet,
    Receive,
    Send,
    send_answer,
)
from dupeproof.http.bodies import announced_size
from dupeproof.http.detached import Detached
from dupeproof.http.exchange_async import AsyncExchange
from dupeproof.http.fingerprints import Head
from dupeproof.http.handler_context import current
from dupeproof.http.order import is_added, warn_of_inside, warn_of_order
from dupeproof.http.problems import Refused, answer_to, problem
from dupeproof.http.request_policy_async import AsyncRequestPolicy
from dupeproof.http.rules import Options, Scope
from dupeproof.http.teardown import routes_of, warn_of_late_teardown
from dupeproof.stores.clients import StoreClient

try:
    from starlette.concurrency import run_in_threadpool
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
    request to a stable id of the caller, not the token, not the address; or `SHARED`. If it gives None, nobody is known to
    be the caller, and the app answers as it does strangers, without a guard.

    A handler comes to its end although its client has gone, in a task of its own, so that the client gets the response when
    it is back. It does not hear that the client has gone unless it streams. When the server shuts down, such handlers have
    `drain` to come to their end. With `detach=False` whoever cancels a request cancels its handler, whose key then
    stays taken until its lease is over. The other options are those of `dupeproof.http.rules.Options`.
    """

    def __init__(
        self,
        app: App,
        *,
        store: str | StoreClient | AsyncStore | AsyncOnce,
        scope: Scope,
        detach: bool = True,
        drain: Duration = defaults.HANDLER_DRAIN,
        **options: Unpack[Options],
    ) -> None:
        self._app = app
        self._wrong: ConfigError | None = None
        try:
            self._policy = AsyncRequestPolicy(store, scope, options)
            self._guard = AsgiGuard(self._policy, Detached(drain) if detach else None)
        except ConfigError as exc:
            if not _in_event_loop():
                raise
            # Apps make their middleware when they are started. Of an error there servers think that the app has no
            # lifespan, and go on without it; so the app has to say itself that it cannot start.
            self._wrong = exc
        self._has_looked = False

    async def __call__(self, scope: Message, receive: Receive, send: Send) -> None:
        if self._wrong is not None:
            await self._refuse(self._wrong, scope, receive, send)
            return
        if not self._has_looked:
            self._look(scope)
        if scope["type"] == "lifespan":
            await self._live(scope, receive, send)
        else:
            await self._guard(self._app, scope, receive, send)

    async def _refuse(self, wrong: ConfigError, scope: Message, receive: Receive, send: Send) -> None:
        if scope["type"] != "lifespan":
            raise wrong
        await receive()
        await send({"type": "lifespan.startup.failed", "message": f"{type(wrong).__name__}: {wrong}"})

    def _look(self, scope: Message) -> None:
        """Once, when the app starts; or with the first request, because servers need not send the start event, and mounts need not pass it on."""
        self._has_looked = True
        app = scope.get("app")
        if is_added(app, type(self)):
            warn_of_order(app, type(self))
        else:  # around an app, or around one route of it, where the others are none of ours
            app = self._app
            warn_of_inside(app)
        warn_of_late_teardown(routes_of(app), self._policy.rules.methods)

    async def _live(self, scope: Message, receive: Receive, send: Send) -> None:
        async def after_draining() -> Message:
            message = await receive()
            if message["type"] == "lifespan.shutdown":
                await self._guard.drain()  # handlers need what the app is about to close
            return message

        try:
            await self._app(scope, after_draining, send)
        finally:
            await self._policy.close()


class AsgiGuard:
    """What is done with every request, around whichever app it is for."""

    def __init__(self, policy: AsyncRequestPolicy, detached: Detached | None) -> None:
        self._policy = policy
        self._detached = detached
        rules = policy.rules
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
        if not self._policy.wants(scope["method"], request):
            return app(scope, receive, send)
        try:
            key = self._policy.find_key([value.decode("latin-1") for value in values], request)
        except Refused as refused:
            return send_answer(send, problem(refused.code, the_key=self._policy.rules.the_key))
        if key is None:
            return app(scope, receive, send)
        return self._guard(app, request, key, receive, send)

    async def drain(self) -> None:
        """Wait for handlers whose clients have gone, as long as was said."""
        if self._detached is not None:
            await self._detached.drain()

    async def _guard(self, app: App, request: Request, key: str, receive: Receive, send: Send) -> None:
        scope, policy = request.scope, self._policy
        try:
            owner = policy.owner(request)
            whole_key = policy.whole_key(owner if type(owner) is str else await awaited(owner), key)
        except Refused as refused:
            await send_answer(send, problem(refused.code, the_key=policy.rules.the_key))
            return
        except Exception as exc:  # noqa: BLE001 - raised again if it is no answer
            await answer_error(request, exc, receive, send)
            return
        if whole_key is None:
            await app(scope, receive, self._watched(send))
        elif policy.is_inner(scope, whole_key):
            await app(scope, receive, send)
        else:
            await self._exchange(app, request, whole_key, receive, send)

    async def _exchange(self, app: App, request: Request, key: str, receive: Receive, send: Send) -> None:
        scope, policy = request.scope, self._policy
        client = Client(receive, send, hides=self._detached is not None)
        inlet = Inlet(receive, client, policy.rules.request_limit)
        try:
            headers = Values(scope["headers"])
            announced_size(headers.last(b"content-length").decode("latin-1"), policy.rules.request_limit)
            if not inlet.take(await receive()):
                await inlet.read_on()
            head = Head(
                scope["method"],
                scope["path"],
                scope.get("query_string", b""),
                headers.last(b"content-type"),
            )
            compared = policy.compared(request, head, headers, inlet.chunks())
            exchange = policy.exchange(key, compared)
            answer = await exchange.begin(headers.text(b"accept-encoding"))
            if answer is not None:
                await self._answer(request, answer, receive, send)
                return
            outlet = Outlet(exchange, client, policy.rules)
            work = self._run(app, scope, inlet.moved(), outlet, client, exchange)
            if self._detached is None:
                await work
            else:
                await self._detached.run(
                    work, left=client.leave, until=lambda: outlet.streams, waits=client.has_left
                )
        except Refused as refused:
            await send_answer(send, problem(refused.code, the_key=policy.rules.the_key))
        except Disconnected:
            return
        finally:
            inlet.close()

    async def _answer(self, request: Request, answer: Answer, receive: Receive, send: Send) -> None:
        if self._policy.rules.authorize is not None:
            try:
                answer = await self._policy.authorized(request, answer)
            except Exception as exc:  # noqa: BLE001
                await answer_error(request, exc, receive, send)
                return
        await send_answer(send, answer)

    async def _run(
        self, app: App, scope: Message, inlet: Inlet, outlet: Outlet, client: Client, exchange: AsyncExchange
    ) -> None:
        extensions = scope.get("extensions")
        if extensions and not extensions.keys().isdisjoint(_PAST_US):
            scope["extensions"] = {name: value for name, value in extensions.items() if name not in _PAST_US}
        # What is stored goes to others too, who may accept no coding: whatever compresses stands outside of us.
        headers = scope["headers"]
        scope["headers"] = [pair for pair in headers if pair[0] != b"accept-encoding"]
        token = current.set(exchange.handling)
        try:
            try:
                await app(scope, inlet, outlet)
            finally:
                await outlet.close()
        except BaseException as exc:
            if await concluded(exchange, client, exc):
                raise
        else:
            await concluded(exchange, client, None)
        finally:
            inlet.close()
            scope["headers"] = headers
            current.reset(token)

    def _watched(self, send: Send) -> Send:
        """For a request that is not guarded although it has a key: the one who reads the log should know."""

        async def watched(message: Message) -> None:
            if message["type"] == "http.response.start":
                self._policy.unguarded(message["status"])
            await send(message)

        return watched


async def concluded(exchange: AsyncExchange, client: Client, error: BaseException | None) -> bool:
    """The handler has ended: decide what becomes of the key, if the response has not. Whether the error is to be raised."""
    if exchange.concluded:
        return not client.gone or not isinstance(error, Exception)
    if not isinstance(error, Exception):
        await exchange.abandon(error or Disconnected())
        return True
    answer = await exchange.failed(error)
    if answer is not None:
        await send_answer(client.send, answer)
    return exchange.handling.done is None


async def answer_error(request: Request, error: Exception, receive: Receive, send: Send) -> None:
    """What an `HTTPException` raised by one of the app's functions says, as the app would; raises what says nothing.

    We stand outside of what answers those of handlers.
    """
    handler = _handler_for(request, error)
    if handler is not None:
        asynchronous = callables.is_async(handler)
        response = await (
            handler(request, error) if asynchronous else run_in_threadpool(handler, request, error)
        )
        await response(request.scope, receive, send)
        return
    answer = answer_to(error)
    if answer is None:
        raise error
    await send_answer(send, answer)


def _handler_for(request: Request, error: Exception) -> Callable[..., Any] | None:
    """The app's own handler of such errors, where it is an app of Starlette's kind."""
    handlers: Mapping[Any, Callable[..., Any]] = getattr(request.scope.get("app"), "exception_handlers", {})
    if answer_to(error) is None:
        return None
    chosen = (getattr(error, "status_code", None), *type(error).__mro__)
    return next((handlers[each] for each in chosen if each in handlers and each is not Exception), None)


def _in_event_loop() -> bool:
    try:
        asyncio.get_running_loop()
    except RuntimeError:
        return False
    return True


class Values:
    """The values of headers, by their names in lower case."""

    __slots__ = ("_headers",)

    def __init__(self, headers: Iterable[tuple[bytes, bytes]]) -> None:
        self._headers = headers

    def __call__(self, name: str) -> list[str]:
        wanted = name.encode("latin-1")
        return [value.decode("latin-1") for header, value in self._headers if header == wanted]

    def last(self, name: bytes) -> bytes:
        """Or nothing."""
        found = b""
        for header, value in self._headers:
            if header == name:
                found = value
        return found

    def text(self, name: bytes) -> str | None:
        """All of them as one, as lists are written; None without any."""
        found = [value for header, value in self._headers if header == name]
        return b",".join(found).decode("latin-1") if found else None
