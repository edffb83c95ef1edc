"""The WSGI middleware: reads the request, lets it in once, and holds the response back until it is stored."""

import time
from collections.abc import Callable, Iterable, Iterator, Mapping
from http import HTTPStatus
from itertools import chain
from math import inf
from types import TracebackType
from typing import Any, Unpack

from dupeproof.core.events import logger
from dupeproof.core.protocols import Store
from dupeproof.guards import Once
from dupeproof.http.answers import Answer, Headers
from dupeproof.http.bodies import CHUNK, Body, announced_size
from dupeproof.http.exchange import Exchange
from dupeproof.http.fingerprints import Head
from dupeproof.http.handler_context import current
from dupeproof.http.problems import Refused, answer_to, problem
from dupeproof.http.request_policy import RequestPolicy
from dupeproof.http.rules import Options, Rules, Scope
from dupeproof.http.statuses import Fate, can_be_kept, has_length, is_unbuffered
from dupeproof.stores.clients import StoreClient

Environ = dict[str, Any]
_UNPREFIXED = ("CONTENT_TYPE", "CONTENT_LENGTH")


class WsgiRequest(Mapping[str, Any]):
    """What `scope`, `when`, `key` and `fingerprint` are given: the environ, and the request's head in easier words."""

    def __init__(self, environ: Environ) -> None:
        self.environ = environ
        self.headers = _Headers(environ)
        self.method: str = environ["REQUEST_METHOD"]
        self.path: str = environ.get("SCRIPT_NAME", "") + environ.get("PATH_INFO", "")
        self.query: str = environ.get("QUERY_STRING", "")

    def header_values(self, header: str) -> list[str]:
        """The value of a header, in which a WSGI server has joined them all."""
        return [self.headers[header]] if header in self.headers else []

    def __getitem__(self, name: str) -> Any:
        return self.environ[name]

    def __iter__(self) -> Iterator[str]:
        return iter(self.environ)

    def __len__(self) -> int:
        return len(self.environ)


class _Headers(Mapping[str, str]):
    """The headers in an environ, by their names in upper or lower case."""

    def __init__(self, environ: Environ) -> None:
        self._environ = environ

    def __getitem__(self, name: str) -> str:
        value: str = self._environ[variable_of(name)]
        return value

    def __iter__(self) -> Iterator[str]:
        for variable in self._environ:
            if variable in _UNPREFIXED or variable.startswith("HTTP_"):
                yield variable.removeprefix("HTTP_").replace("_", "-").lower()

    def __len__(self) -> int:
        return sum(1 for _ in self)


def variable_of(header: str) -> str:
    """Under which name a header is in the environ."""
    name = header.upper().replace("-", "_")
    return name if name in _UNPREFIXED else f"HTTP_{name}"


ExcInfo = tuple[type[BaseException], BaseException, TracebackType] | tuple[None, None, None]
StartResponse = Callable[..., Callable[[bytes], object]]


class Outlet:
    """Gives the app its `start_response`, takes its chunks, concludes the key, then speaks to the server.

    What cannot be kept, a stream or what is too large, is concluded as done before its first byte goes out.
    """

    def __init__(
        self, exchange: Exchange, start_response: StartResponse, request: Body, rules: Rules
    ) -> None:
        self._exchange = exchange
        self._start_response = start_response
        self._request = request
        self._limit = rules.response_limit
        self._patience = rules.stream_after
        self._line = ""
        self._headers: list[tuple[str, str]] = []
        self._chunks: list[bytes] = []
        self._size = 0
        self._is_passing = False
        """Bytes may go out: those that were kept first, by the server's `write` or before the rest of the app's."""
        self._write: Callable[[bytes], object] | None = None
        """The server's, if it has one: there are servers that have not, and few apps that ask for it."""
        self._iterable: Iterable[bytes] = ()

    def start(
        self, status: str, headers: list[tuple[str, str]], exc_info: ExcInfo | None = None
    ) -> Callable[[bytes], object]:
        """What the app calls as `start_response`."""
        if exc_info is not None and exc_info[1] is not None:
            self._exchange.handling.saw(exc_info[1])
        if self._is_passing:
            return self._start_response(status, headers, exc_info)  # too late, as the server will say
        if exc_info is not None:  # it starts anew, and nothing has gone out yet
            self._chunks.clear()
            self._size = 0
        self._line, self._headers = status, headers
        self._exchange.handling.saw_handled(self._status)
        return self._take

    def take(self, iterable: Iterable[bytes]) -> Iterable[bytes]:
        """What the app returned; what to return in its place."""
        self._iterable = iterable
        chunks = iter(iterable)
        if not self._line:  # some call it only now
            self._take(next(chunks, b""))
        headers = _encoded(self._headers)
        # Lists are whole, and so is what Django says is.
        goes_on = not hasattr(iterable, "__len__") and bool(getattr(iterable, "streaming", True))
        if can_be_kept(self._status, headers, self._limit) and not (goes_on and is_unbuffered(headers)):
            ends = time.monotonic() + self._patience if goes_on and not has_length(headers) else inf
            while not self._is_passing:
                chunk = next(chunks, None)
                if chunk is None:
                    return self._whole()
                self._take(chunk)
                if time.monotonic() > ends:
                    break
        self._pass()
        kept, self._chunks = self._chunks, []
        return _Rest(self, chain(kept, chunks))

    def answer(self, answer: Answer) -> Iterable[bytes]:
        """In place of what the app said."""
        return send_answer(self._start_response, answer)

    def close(self) -> None:
        self._request.close()
        close = getattr(self._iterable, "close", None)
        if close is not None:
            close()

    def _take(self, chunk: bytes) -> None:
        self._chunks.append(chunk)
        self._size += len(chunk)
        if self._size > self._limit:
            self._pass()
        if self._write is not None:
            for each in self._chunks:
                self._write(each)
            self._chunks.clear()

    @property
    def _status(self) -> int:
        return int(self._line[:3])

    def _conclude(self, body: bytes | None) -> None:
        headers = _encoded(self._headers)
        self._headers = self._headers + decoded(self._exchange.conclude(self._status, headers, body))

    def _whole(self) -> Iterable[bytes]:
        if self._exchange.handling.done is not None:
            answer = self._exchange.repeat(self._exchange.handling.done)
            return _Closing(self.answer(answer), self.close)
        body = b"".join(self._chunks)
        self._conclude(body)
        self._start_response(self._line, self._headers)
        return _Closing([body], self.close)

    def _pass(self) -> None:
        """From here on the app speaks to the server directly."""
        if self._is_passing:
            return
        # What will not be stored may not be given back while its handler still runs.
        if self._exchange.fate(self._status) is Fate.STORE:
            self._conclude(None)
        self._write = self._start_response(self._line, self._headers)
        self._is_passing = True

    def end(self, interruption: BaseException | None) -> None:
        if self._exchange.concluded:
            return
        if interruption is None:
            self._conclude(None)
        elif isinstance(interruption, Exception):
            self._exchange.failed(interruption)
        else:
            self._exchange.abandon(interruption)


class _Rest:
    """What is left of a response that goes out as it comes."""

    def __init__(self, outlet: Outlet, chunks: Iterator[bytes]) -> None:
        self._outlet = outlet
        self._chunks = chunks

    def __iter__(self) -> Iterator[bytes]:
        return self

    def __next__(self) -> bytes:
        try:
            return next(self._chunks)
        except StopIteration:
            self._outlet.end(None)
            raise
        except BaseException as exc:
            self._outlet.end(exc)
            raise

    def close(self) -> None:
        self._outlet.end(GeneratorExit())
        self._outlet.close()


class _Closing:
    def __init__(self, chunks: Iterable[bytes], close: Callable[[], None]) -> None:
        self._chunks = chunks
        self.close = close

    def __iter__(self) -> Iterator[bytes]:
        return iter(self._chunks)


def send_answer(start_response: StartResponse, answer: Answer) -> list[bytes]:
    start_response(status_line(answer.status), decoded(answer.headers))
    return [answer.body or b""]


def status_line(status: int) -> str:
    try:
        return f"{status} {HTTPStatus(status).phrase}"
    except ValueError:
        return f"{status} Unassigned"


def decoded(headers: Headers) -> list[tuple[str, str]]:
    return [(name.decode("latin-1").title(), value.decode("latin-1")) for name, value in headers]


def _encoded(headers: list[tuple[str, str]]) -> Headers:
    return [(name.encode("latin-1"), value.encode("latin-1")) for name, value in headers]


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
        self, app: App, *, store: str | StoreClient | Store | Once, scope: Scope, **options: Unpack[Options]
    ) -> None:
        self._app = app
        self._policy = RequestPolicy(store, scope, options)
        rules = self._policy.rules
        self._methods = rules.methods
        self._header = variable_of(rules.header)
        self._only_with_header = not rules.required and rules.find_key is None

    def close(self) -> None:
        """Give up connections, where they are ours. Closing twice is fine."""
        self._policy.close()

    def __call__(self, environ: Environ, start_response: StartResponse) -> Iterable[bytes]:
        if environ["REQUEST_METHOD"] not in self._methods or (
            self._only_with_header and self._header not in environ
        ):
            return self._app(environ, start_response)
        request = WsgiRequest(environ)
        if not self._policy.wants(request.method, request):
            return self._app(environ, start_response)
        try:
            values = [environ[self._header]] if self._header in environ else []
            key = self._policy.find_key(values, request)
            if key is None:
                return self._app(environ, start_response)
            whole_key = self._whose(key, request)
            if isinstance(whole_key, Answer):
                return send_answer(start_response, whole_key)
            if whole_key is None:
                return self._app(environ, self._watched(start_response))
            if self._policy.is_inner(environ, whole_key):
                return self._app(environ, start_response)
            return self._guard(environ, start_response, request, whole_key)
        except Refused as refused:
            return send_answer(start_response, problem(refused.code, the_key=self._policy.rules.the_key))

    def _whose(self, key: str, request: WsgiRequest) -> str | Answer | None:
        """The whole key; or what an HTTPException of the scope's says."""
        try:
            return self._policy.whose(key, request)
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
            self._policy.unguarded(int(status[:3]))
            return start_response(status, *others)

        return watched

    def _guard(
        self, environ: Environ, start_response: StartResponse, request: WsgiRequest, key: str
    ) -> Iterable[bytes]:
        body = _read(environ, self._policy.rules.request_limit)
        try:
            content_type = environ.get("CONTENT_TYPE", "").encode("latin-1", "replace")
            query = request.query.encode("latin-1", "replace")
            head = Head(request.method, request.path, query, content_type)
            compared = self._policy.compared(request, head, request.header_values, body)
            exchange = self._policy.exchange(key, compared)
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
        return self._run(environ, exchange, Outlet(exchange, start_response, body, self._policy.rules))

    def _authorized(self, request: WsgiRequest, answer: Answer) -> Answer:
        try:
            return self._policy.authorized(request, answer)
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
            answer = None if exchange.concluded else exchange.failed(exc)
            outlet.close()
            if answer is None:
                raise
            if exchange.handling.done is None:
                logger.exception("A handler failed, and its key gets this answer from now on")
            return outlet.answer(answer)
        except BaseException as exc:
            if not exchange.concluded:
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
