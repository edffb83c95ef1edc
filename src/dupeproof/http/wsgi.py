"""The WSGI middleware: reads the request, lets it in once, and holds the response back until it is stored."""

from collections.abc import Callable, Iterable
from typing import Any, Unpack

from dupeproof.core.events import logger
from dupeproof.core.protocols import Store
from dupeproof.guards import Once
from dupeproof.http._sync.desk import Desk
from dupeproof.http._sync.exchange import Exchange
from dupeproof.http.bodies import CHUNK, Body, announced_size
from dupeproof.http.handling import current
from dupeproof.http.problems import Refused, problem
from dupeproof.http.rules import Options, Scope
from dupeproof.http.wsgi_request import Environ, WsgiRequest, variable_of
from dupeproof.http.wsgi_response import Outlet, StartResponse, send_answer

__all__ = ["IdempotencyMiddleware", "WsgiRequest"]

App = Callable[[Environ, StartResponse], Iterable[bytes]]


class IdempotencyMiddleware:
    """Runs a request with an `Idempotency-Key` once, and answers its retries with the stored response.

        app.wsgi_app = IdempotencyMiddleware(app.wsgi_app, store="redis://…", scope=…)

    `store` is a URL, a store or a `Once`. `scope` says whose key it is: a function from a `WsgiRequest` to a stable id of
    the caller, not the token, not the address; or `SHARED`. The other options are those of `dupeproof.http.rules.Options`.
    """

    def __init__(
        self, app: App, *, store: str | Store | Once, scope: Scope, **options: Unpack[Options]
    ) -> None:
        self._app = app
        self._desk = Desk(store, scope, options)
        rules = self._desk.rules
        self._methods = rules.methods
        self._header = variable_of(rules.header)
        self._only_with_header = not rules.required and rules.find_key is None

    def close(self) -> None:
        """Give up connections, where they are ours. Closing twice is fine."""
        self._desk.close()

    def __call__(self, environ: Environ, start_response: StartResponse) -> Iterable[bytes]:
        if environ["REQUEST_METHOD"] not in self._methods or (
            self._only_with_header and self._header not in environ
        ):
            return self._app(environ, start_response)
        request = WsgiRequest(environ)
        if not self._desk.wants(request.method, request):
            return self._app(environ, start_response)
        try:
            values = [environ[self._header]] if self._header in environ else []
            key = self._desk.find_key(values, request)
            if key is None:
                return self._app(environ, start_response)
            whole_key = self._desk.whose(key, request)
            if self._desk.is_inner(environ, whole_key):
                return self._app(environ, start_response)
            return self._guard(environ, start_response, request, whole_key)
        except Refused as refused:
            return send_answer(start_response, problem(refused.code, the_key=self._desk.rules.the_key))

    def _guard(
        self, environ: Environ, start_response: StartResponse, request: WsgiRequest, key: str
    ) -> Iterable[bytes]:
        body = _read(environ, self._desk.rules.request_limit)
        try:
            content_type = environ.get("CONTENT_TYPE", "").encode("latin-1", "replace")
            query = request.query.encode("latin-1", "replace")
            path = request.path
            compared = self._desk.compared(request, request.method, path, query, content_type, body)
            exchange = self._desk.exchange(key, compared)
            answer = exchange.begin()
        except BaseException:
            body.close()
            raise
        if answer is not None:
            body.close()
            return send_answer(start_response, answer)
        environ["wsgi.input"] = body.rewound()
        return self._run(environ, exchange, Outlet(exchange, start_response, body, self._desk.rules))

    def _run(self, environ: Environ, exchange: Exchange, outlet: Outlet) -> Iterable[bytes]:
        token = current.set(exchange.handling)
        try:
            return outlet.take(self._app(environ, outlet.start))
        except Exception as exc:
            answer = None if exchange.settled else exchange.failed(exc)
            outlet.close()
            if answer is None:
                raise
            if exchange.handling.done is None:
                logger.exception("A handler failed, and its key gets this answer from now on")
            return outlet.answer(answer)
        except BaseException as exc:
            if not exchange.settled:
                exchange.abandon(exc)
            outlet.close()
            raise
        finally:
            current.reset(token)


def _read(environ: Environ, limit: int) -> Body:
    """The whole body, and not a byte more: a server may block who reads on."""
    size = announced_size(environ.get("CONTENT_LENGTH"), limit)
    if size is None and not environ.get("wsgi.input_terminated", False):
        size = 0
    stream: Any = environ["wsgi.input"]
    body = Body(limit)
    try:
        while size is None or body.size < size:
            chunk = stream.read(CHUNK if size is None else min(CHUNK, size - body.size))
            if not chunk:
                break
            body.add(chunk)
        body.check_whole(size)
    except BaseException:
        body.close()
        raise
    return body
