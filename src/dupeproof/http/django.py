"""For Django: a middleware for all of a project, a decorator for single views; sync and async."""

from collections.abc import Awaitable, Callable, Iterable, Sequence
from functools import wraps
from typing import Any, Unpack
from weakref import finalize

from dupeproof.core.protocols import AsyncStore, Store
from dupeproof.errors import ConfigError
from dupeproof.guards import AsyncOnce, Once
from dupeproof.http._async.desk import AsyncDesk
from dupeproof.http._async.views import guarded as guarded_async
from dupeproof.http._sync.desk import Desk
from dupeproof.http._sync.views import guarded
from dupeproof.http.answers import Answer, Headers
from dupeproof.http.bodies import CHUNK, Body, announced_size
from dupeproof.http.detaching import detached
from dupeproof.http.keeping import can_be_kept
from dupeproof.http.problems import Code, Refused
from dupeproof.http.rules import Options, Scope
from dupeproof.http.views import ReadBody
from dupeproof.http.wsgi_response import decoded

try:
    from asgiref.sync import iscoroutinefunction, markcoroutinefunction
    from django.conf import settings
    from django.http import HttpRequest, HttpResponse, HttpResponseBase
    from django.http.request import UnreadablePostError
    from django.utils.module_loading import import_string
except ModuleNotFoundError as exc:
    raise ModuleNotFoundError(
        'dupeproof.http.django needs Django, which is not installed; run: pip install "dupeproof[django]"',
        name=exc.name,
    ) from exc

__all__ = ["IdempotencyMiddleware", "Idempotent"]

View = Callable[..., Any]


class IdempotencyMiddleware:
    """Guards the whole project, with the options in `settings.DUPEPROOF_HTTP`:

        DUPEPROOF_HTTP = {"store": "redis://…", "scope": "shop.auth.user_id"}
        MIDDLEWARE = [..., "dupeproof.http.django.IdempotencyMiddleware"]

    after those that say who the user is. Functions may be given by their dotted names, and are given Django's request.
    """

    sync_capable = True
    async_capable = True

    def __init__(self, get_response: View) -> None:
        options = getattr(settings, "DUPEPROOF_HTTP", None)
        if not isinstance(options, dict) or "store" not in options or "scope" not in options:
            raise ConfigError('settings.DUPEPROOF_HTTP is missing; write {"store": "redis://…", "scope": …}')
        found = {name: _imported(name, value) for name, value in options.items()}
        self._guarded = Idempotent(**found)(get_response)
        if iscoroutinefunction(get_response):
            markcoroutinefunction(self)

    def __call__(self, request: HttpRequest) -> Any:
        return self._guarded(request)


class Idempotent:
    """A decorator for views, sync or async.

        idempotent = Idempotent(store="redis://…", scope=lambda request: request.user.pk)

        @idempotent
        def order(request): ...

    `store` is a URL for views of both kinds, or a store or guard for those of its own. Under ASGI, Django cancels async views
    whose client has gone; with `detach` they come to their end, so that the client gets the response when it is back.
    """

    def __init__(
        self,
        *,
        store: str | Store | Once | AsyncStore | AsyncOnce,
        scope: Scope,
        detach: bool = False,
        **options: Unpack[Options],
    ) -> None:
        self._arguments: Any = (store, scope, options)
        self._detach = detach
        self._desk: Desk | None = None
        self._async_desk: AsyncDesk | None = None

    def __call__(self, view: View) -> View:
        return self._around_async(view) if iscoroutinefunction(view) else self._around(view)

    def _around(self, view: View) -> View:
        if self._desk is None:
            self._desk = Desk(*self._arguments)
        desk = self._desk

        @wraps(view)
        def guarded_view(request: HttpRequest, *args: Any, **kwargs: Any) -> HttpResponseBase:
            return guarded(desk, _Incoming(request), _DJANGO, lambda: view(request, *args, **kwargs))

        return guarded_view

    def _around_async(self, view: Callable[..., Awaitable[Any]]) -> View:
        if self._async_desk is None:
            self._async_desk = AsyncDesk(*self._arguments)
        desk = self._async_desk

        @wraps(view)
        async def guarded_view(request: HttpRequest, *args: Any, **kwargs: Any) -> HttpResponseBase:
            work = guarded_async(desk, _Incoming(request), _DJANGO, lambda: view(request, *args, **kwargs))
            return await (detached(work) if self._detach else work)

        return guarded_view


def _imported(name: str, value: Any) -> Any:
    by_name = name in ("scope", "when", "validate", "fingerprint") and isinstance(value, str)
    return import_string(value) if by_name else value


class _Incoming:
    def __init__(self, request: HttpRequest) -> None:
        self.request = request
        self.method: str = request.method
        self.path: str = request.path
        self.query: bytes = request.META.get("QUERY_STRING", "").encode("latin-1", "replace")

    def key_values(self, header: str) -> Sequence[str]:
        name = "HTTP_" + header.upper().replace("-", "_")
        return [self.request.META[name]] if name in self.request.META else []

    def body(self, limit: int) -> ReadBody:
        request = self.request
        size = announced_size(request.META.get("CONTENT_LENGTH") or None, limit)
        content_type = request.META.get("CONTENT_TYPE", "").encode("latin-1", "replace")
        if hasattr(request, "_body"):
            return ReadBody(content_type, (request.body,))
        if request._read_started:  # noqa: SLF001 - a parsed form; there is no other way to tell
            return ReadBody(b"multipart/form-data", _parsed(request))
        body = Body(limit)
        try:
            while chunk := request.read(CHUNK):
                body.add(chunk)
            body.check_whole(size)
        except UnreadablePostError as exc:
            body.close()
            raise Refused(Code.BODY_MALFORMED) from exc
        except BaseException:
            body.close()
            raise
        # `request.body` would put all of it into memory, and refuse uploads that Django takes.
        request._stream = body.rewound()  # noqa: SLF001
        request._read_started = False  # noqa: SLF001
        finalize(request, body.close)
        return ReadBody(content_type, body.then_rewound())


def _parsed(request: HttpRequest) -> Iterable[bytes]:
    for name, values in request.POST.lists():
        yield repr((name, values)).encode("utf-8", "surrogatepass")
    for name, files in request.FILES.lists():
        for file in files:
            yield repr((name, file.name, file.content_type)).encode("utf-8", "surrogatepass")
            yield from file.chunks()
            file.seek(0)


class _Django:
    def respond(self, answer: Answer) -> HttpResponseBase:
        response = HttpResponse(answer.body, status=answer.status)
        del response["Content-Type"]
        for name, value in decoded(answer.headers):
            # Django keeps one value per name; several mean the same when joined, but for cookies, which are not stored.
            response[name] = f"{response[name]}, {value}" if name in response else value
        return response

    def seen(self, response: HttpResponseBase, limit: int) -> Answer:
        headers = [(name.encode("latin-1"), value.encode("latin-1")) for name, value in response.items()]
        if not getattr(response, "is_rendered", True):
            response.render()
        kept = can_be_kept(response.status_code, headers, limit, goes_on=response.streaming)
        kept = kept and not (response.streaming and response.is_async)
        body = _whole_body(response) if kept else None
        return Answer(response.status_code, headers, body if body is None or len(body) <= limit else None)

    def add(self, response: HttpResponseBase, headers: Headers) -> None:
        for name, value in decoded(headers):
            response[name] = value


def _whole_body(response: Any) -> bytes:
    if response.streaming:
        body = b"".join(response.streaming_content)
        response.streaming_content = [body]
        return body
    content: bytes = response.content
    return content


_DJANGO = _Django()
