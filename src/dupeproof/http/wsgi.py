"""The WSGI middleware: reads the request, lets it in once, and holds the response back until it is stored."""

from collections.abc import Callable, Iterable
from typing import Any, Unpack

from dupeproof.core.events import logger
from dupeproof.core.protocols import Store
from dupeproof.guards import Once
from dupeproof.http._sync.desk import Desk
from dupeproof.http._sync.exchange import Exchange
from dupeproof.http.answers import Answer
from dupeproof.http.bodies import CHUNK, Body, announced_size
from dupeproof.http.fingerprints import Head
from dupeproof.http.handling import current
from dupeproof.http.problems import Refused, answer_to, problem
from dupeproof.http.rules import Options, Scope
from dupeproof.http.wsgi_request import Environ, WsgiRequest, variable_of
from dupeproof.http.wsgi_response import Outlet, StartResponse, send_answer

__all__ = ["IdempotencyMiddleware", "WsgiRequest"]

App = Callable[[Environ, StartResponse], Iterable[bytes]]


class IdempotencyMiddleware:
    """Runs a request with an `Idempotency-Key` once, and answers its retries with the stored response.

        app.wsgi_app = IdempotencyMiddleware(app.wsgi_app, store="redis://…", scope=…)

    `store` is a URL, a store or a `Once`. `scope` says whose key it is: a function from a `WsgiRequest` to a stable id of
    the caller, not the token, not the address; or `SHARED`. If it gives None, nobody is known to be the caller, and the app
    answers as it does strangers, without a guard. The other options are those of `dupeproof.http.rules.Options`.
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
            whole_key = self._whose(key, request)
            if isinstance(whole_key, Answer):
                return send_answer(start_response, whole_key)
            if whole_key is None:
                return self._app(environ, self._watched(start_response))
            if self._desk.is_inner(environ, whole_key):
                return self._app(environ, start_response)
            return self._guard(environ, start_response, request, whole_key)
        except Refused as refused:
            return send_answer(start_response, problem(refused.code, the_key=self._desk.rules.the_key))

    def _whose(self, key: str, request: WsgiRequest) -> str | Answer | None:
        """The whole key; or what an HTTPException of the scope's says."""
        try:
            return self._desk.whose(key, request)
        except Refused:
            raise
        except Exception as exc:
            answer = answer_to(exc)
            if answer is None:
                raise
            return answer

    def _watched(self, start_response: StartResponse) -> StartResponse:
        """For a request that is not guarded although it has a key: the one who reads the log should know."""

        def watched(status: str, *others: Any) -> Callable[[bytes], object]:
            self._desk.unguarded(int(status[:3]))
            return start_response(status, *others)

        return watched

    def _guard(
        self, environ: Environ, start_response: StartResponse, request: WsgiRequest, key: str
    ) -> Iterable[bytes]:
        body = _read(environ, self._desk.rules.request_limit)
        try:
            content_type = environ.get("CONTENT_TYPE", "").encode("latin-1", "replace")
            query = request.query.encode("latin-1", "replace")
            head = Head(request.method, request.path, query, content_type)
            compared = self._desk.compared(request, head, request.header_values, body)
            exchange = self._desk.exchange(key, compared)
            answer = exchange.begin(environ.get("HTTP_ACCEPT_ENCODING"))
            if answer is not None:
                answer = self._authorized(request, answer)
        except BaseException:
            body.close()
            raise
        if answer is not None:
            body.close()
            return send_answer(start_response, answer)
        environ["wsgi.input"] = body.rewound()
        return self._run(environ, exchange, Outlet(exchange, start_response, body, self._desk.rules))

    def _authorized(self, request: WsgiRequest, answer: Answer) -> Answer:
        try:
            return self._desk.authorized(request, answer)
        except Exception as exc:
            said = answer_to(exc)
            if said is None:
                raise
            return said

    def _run(self, environ: Environ, exchange: Exchange, outlet: Outlet) -> Iterable[bytes]:
        token = current.set(exchange.handling)
        # What is stored goes to others too, who may accept no coding: whatever compresses stands outside of us.
        accepts = environ.pop("HTTP_ACCEPT_ENCODING", None)
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
            if accepts is not None:
                environ["HTTP_ACCEPT_ENCODING"] = accepts
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
