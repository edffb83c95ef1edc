"""For Django: a middleware for all of a project, a decorator for single views; sync and async."""

import warnings
from collections.abc import Awaitable, Callable, Iterator, Sequence
from functools import wraps
from inspect import iscoroutine
from typing import Any, Unpack
from weakref import finalize

from dupeproof.core.protocols import AsyncStore, Store
from dupeproof.errors import ConfigError, TokenError, TokenUsed
from dupeproof.guards import AsyncOnce, Once
from dupeproof.guards.runtime_async import awaited
from dupeproof.http.answers import Answer, Headers
from dupeproof.http.bodies import CHUNK, Body, announced_size, check_size
from dupeproof.http.detached import Detached
from dupeproof.http.fingerprints import form_digests
from dupeproof.http.forms import status_of, words_for
from dupeproof.http.handler_context import current
from dupeproof.http.order import GUARDED, warn_of_django_order
from dupeproof.http.problems import Code, Refused
from dupeproof.http.request_policy import RequestPolicy
from dupeproof.http.request_policy_async import AsyncRequestPolicy
from dupeproof.http.rules import Options, Rules, Scope
from dupeproof.http.statuses import Fate, can_be_kept, is_unbuffered
from dupeproof.http.view_adapters import READ_BEFORE, ReadBody, read_whole, read_whole_async
from dupeproof.http.views import guarded
from dupeproof.http.views_async import guarded as guarded_async
from dupeproof.http.wsgi import decoded
from dupeproof.stores.clients import StoreClient

try:
    from asgiref.sync import iscoroutinefunction, markcoroutinefunction, sync_to_async
    from django.conf import settings
    from django.core.exceptions import BadRequest, PermissionDenied, SuspiciousOperation
    from django.core.handlers.exception import response_for_exception
    from django.db import connections
    from django.http import Http404, HttpRequest, HttpResponse, HttpResponseBase
    from django.http.multipartparser import MultiPartParserError
    from django.http.request import UnreadablePostError
    from django.utils.module_loading import import_string
except ModuleNotFoundError as exc:
    raise ModuleNotFoundError(
        'dupeproof.http.django needs Django, which is not installed; run: pip install "dupeproof[django]"',
        name=exc.name,
    ) from exc

__all__ = ["IdempotencyMiddleware", "Idempotent", "SentBefore", "TokenMiddleware", "TokenRefused"]

View = Callable[..., Any]
_ANSWERS = (Http404, PermissionDenied, BadRequest, SuspiciousOperation, MultiPartParserError, TokenError)
"""What a view raises to have Django, or us, answer with a 4xx."""


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
        warn_of_django_order(settings.MIDDLEWARE, f"{__name__}.{type(self).__name__}")
        found = {name: _imported(name, value) for name, value in options.items()}
        self._guarded = Idempotent(**found)(_routed(get_response))
        if iscoroutinefunction(get_response):
            markcoroutinefunction(self)

    def __call__(self, request: HttpRequest) -> Any:
        return self._guarded(request)

    def process_exception(self, _: HttpRequest, exception: Exception) -> None:
        """Of an error that no middleware further inside has answered; one further outside may answer it."""
        handling = current.get()
        if handling is not None:
            handling.saw(exception)


def _routed(get_response: View) -> View:
    """Where no view was found nothing was done: what stands outside may send the client elsewhere, to a slash, say."""

    def release(request: HttpRequest, response: HttpResponseBase) -> HttpResponseBase:
        handling = current.get()
        unrouted = response.status_code == 404 and request.resolver_match is None
        if unrouted and handling is not None and handling.fate is None:
            handling.fate = Fate.RELEASE
        return response

    if iscoroutinefunction(get_response):

        async def answered_async(request: HttpRequest) -> HttpResponseBase:
            return release(request, await get_response(request))

        return answered_async

    def answered(request: HttpRequest) -> HttpResponseBase:
        return release(request, get_response(request))

    return answered


class TokenRefused(TokenError, PermissionDenied):  # type: ignore[misc] # Django has no types
    """A one-time token that is not good for this; what Django knows how to answer."""


class SentBefore(TokenUsed, TokenRefused):
    """A one-time token that was used; the same."""


class TokenMiddleware:
    """Answers what is raised for one-time tokens: 409 for a form that was sent before, 403 for all else.

    MIDDLEWARE = [..., "dupeproof.http.django.TokenMiddleware"]
    """

    sync_capable = True
    async_capable = True

    def __init__(self, get_response: View) -> None:
        self._get_response = get_response
        if iscoroutinefunction(get_response):
            markcoroutinefunction(self)

    def __call__(self, request: HttpRequest) -> Any:
        return self._get_response(request)

    def process_exception(self, _: HttpRequest, exception: Exception) -> HttpResponse | None:
        return _told(exception) if isinstance(exception, TokenError) else None


class Idempotent:
    """A decorator for views, sync or async.

        idempotent = Idempotent(store="redis://…", scope=lambda request: request.user.pk)

        @idempotent
        def order(request): ...

    What Django answers for the view, as after `raise Http404`, is an answer and no failure. `store` is a URL for views of
    both kinds, or a store or guard for those of its own. Under ASGI, Django cancels views whose client has gone. Those
    with a key come to their end all the same, so that the client gets the response when it is back; with `detach=False`
    they are cancelled, and their keys stay taken until their leases are over. With `ATOMIC_REQUESTS` take the middleware:
    Django commits after the view, when a decorator has stored the response already. Django REST framework and
    django-ninja have decorators of their own, in `dupeproof.http.drf` and `dupeproof.http.ninja`.
    """

    def __init__(
        self,
        *,
        store: str | StoreClient | Store | Once | AsyncStore | AsyncOnce,
        scope: Scope,
        detach: bool = True,
        **options: Unpack[Options],
    ) -> None:
        self._arguments: Any = (store, scope, options)
        self._detached = Detached() if detach else None
        self._policy: RequestPolicy | None = None
        self._async_policy: AsyncRequestPolicy | None = None

    def __call__(self, view: View) -> View:
        guarded_view = self._around_async(view) if iscoroutinefunction(view) else self._around(view)
        # django-ninja asks these when it makes an operation of the view: one that returns data, and no response.
        guarded_view._ninja_contribute_to_operation = [_refuse_operation]  # type: ignore[attr-defined] # noqa: SLF001
        setattr(guarded_view, GUARDED, True)
        return guarded_view

    def _sync_policy(self) -> RequestPolicy:
        if self._policy is None:
            _check_kind(self._arguments[0], AsyncOnce, Once)
            self._policy = RequestPolicy(*self._arguments)
        return self._policy

    def _around(self, view: View) -> View:
        policy = self._sync_policy()

        @wraps(view)
        def guarded_view(request: HttpRequest, *args: Any, **kwargs: Any) -> HttpResponseBase:
            _check_request(request)
            warn_of_atomic_requests(request)

            def respond() -> Any:
                try:
                    response = view(request, *args, **kwargs)
                except _ANSWERS as exc:
                    handling = current.get()
                    if handling is None:
                        raise
                    handling.saw(exc)
                    return _answer_to(request, exc)
                _check_response(response)
                return response.render() if _is_due(response) else response

            return guarded(policy, DjangoRequest(request), DJANGO, respond)

        return guarded_view

    def _around_async(self, view: Callable[..., Awaitable[Any]]) -> View:
        if self._async_policy is None:
            store, scope, options = self._arguments
            _check_kind(store, Once, AsyncOnce)
            if "authorize" in options:
                options = {**options, "authorize": _in_a_thread(options["authorize"])}
            self._async_policy = AsyncRequestPolicy(store, _in_a_thread(scope), options)
        policy = self._async_policy

        @wraps(view)
        async def guarded_view(request: HttpRequest, *args: Any, **kwargs: Any) -> HttpResponseBase:
            _check_request(request)
            unguarded = False

            async def respond() -> Any:
                nonlocal unguarded
                unguarded = current.get() is None
                try:
                    response = await view(request, *args, **kwargs)
                except _ANSWERS as exc:
                    handling = current.get()
                    if handling is None:
                        raise
                    handling.saw(exc)
                    return await sync_to_async(_answer_to)(request, exc)
                return await sync_to_async(response.render)() if _is_due(response) else response

            work = guarded_async(policy, DjangoRequest(request), DJANGO_ASYNC, respond)
            # Django ends what belongs to the request, its database connections too, when it is over for Django.
            if self._detached is None:
                return await work
            # One without a key is cancelled as ever: a view may wait for something that never comes.
            return await self._detached.run(work, until=lambda: unguarded)

        return guarded_view


def _check_kind(store: object, wrong: type, right: type) -> None:
    if isinstance(store, wrong):
        kind = "async" if right is AsyncOnce else "sync"
        raise ConfigError(
            f"this view is {kind}, and its guard is of the other kind; give {right.__name__}(…), or the URL of the store, "
            "which is good for both"
        )


def _check_request(request: Any) -> None:
    if not isinstance(request, HttpRequest):
        raise ConfigError(
            f"a view was called with a {type(request).__qualname__} and not with Django's request; for Django REST framework "
            "use dupeproof.http.drf.Idempotent, for other methods of classes django.utils.decorators.method_decorator"
        )


def _refuse_operation(_: object) -> None:
    raise ConfigError("this is a django-ninja operation; use dupeproof.http.ninja.Idempotent for it")


_warned: set[str] = set()


def warn_of_atomic_requests(request: HttpRequest) -> None:
    """Once for each view that Django puts into a transaction. Around all of Django, as a middleware is, no view is known."""
    resolved = getattr(
        request, "resolver_match", None
    )  # clients that test without a server may leave it away
    if resolved is None:
        return
    view = resolved.func
    apart = getattr(view, "_non_atomic_requests", ())  # as Django itself does; there is no public way to know
    atomic = [
        alias
        for alias, database in connections.settings.items()
        if database.get("ATOMIC_REQUESTS") and alias not in apart
    ]
    # The function that Django makes of a class has another name.
    named = getattr(view, "view_class", view)
    name = f"{named.__module__}.{getattr(named, '__name__', type(named).__name__)}"
    if atomic and name not in _warned:
        _warned.add(name)
        warnings.warn(
            f"{name}: ATOMIC_REQUESTS of the database {atomic[0]!r} commits after the view, when its response is stored "
            "already. Should the commit fail, retries get the response of work that was undone. Take "
            "dupeproof.http.django.IdempotencyMiddleware in place of the decorator, or put "
            "django.db.transaction.non_atomic_requests around the view and use idempotency.transaction in its own transaction",
            stacklevel=2,
        )


def _in_a_thread(function: Any) -> Any:
    """`request.user` asks the database, which Django allows in no event loop."""
    if not callable(function) or iscoroutinefunction(function):
        return function
    in_thread = sync_to_async(function)

    async def asked(request: Any) -> Any:
        # A lambda may call an async function. What that says counts, not that it would say something.
        return await awaited(await in_thread(request))

    return asked


def _answer_to(request: HttpRequest, exc: Exception) -> HttpResponseBase:
    return _told(exc) if isinstance(exc, TokenError) else response_for_exception(request, exc)


def _told(exc: TokenError) -> HttpResponse:
    return HttpResponse(words_for(exc), status=status_of(exc), content_type="text/plain; charset=utf-8")


def _check_response(response: Any) -> None:
    if iscoroutine(response):
        response.close()
        raise ConfigError(
            "this view is async, and was decorated as if it were not; decorate what as_view() returns, or its async method"
        )


def _is_due(response: Any) -> bool:
    """Whether a template has to be rendered for the response to be whole; without a key that is left to Django."""
    return current.get() is not None and not getattr(response, "is_rendered", True)


def _imported(name: str, value: Any) -> Any:
    by_name = name in ("scope", "when", "validate", "fingerprint", "authorize", "codec") and isinstance(
        value, str
    )
    return import_string(value) if by_name and value != "json" else value


class DjangoRequest:
    def __init__(self, request: HttpRequest) -> None:
        self.request = request
        self.method: str = request.method
        self.path: str = request.path
        self.environ = request.META
        self.query: bytes = request.META.get("QUERY_STRING", "").encode("latin-1", "replace")

    def header_values(self, header: str) -> Sequence[str]:
        # Not from META, where the client that django-ninja tests with writes headers in another way.
        value = self.request.headers.get(header)
        return [] if value is None else [value]

    def body(self, limit: int) -> ReadBody:
        request = self.request
        size = announced_size(request.META.get("CONTENT_LENGTH") or None, limit)
        content_type = request.META.get("CONTENT_TYPE", "").encode("latin-1", "replace")
        if hasattr(request, "_body"):
            check_size(len(request.body), limit)
            return ReadBody(content_type, (request.body,))
        if request._read_started:  # noqa: SLF001 - a parsed form; there is no public way to know
            if request.content_type != "multipart/form-data":
                raise ConfigError(READ_BEFORE.format("request.body"))
            return ReadBody(
                b"multipart/form-data", form_digests(request.POST.lists(), uploads(request.FILES))
            )
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


def uploads(files: Any) -> Iterator[tuple[tuple[str | None, ...], Iterator[bytes]]]:
    """Of each upload what is known of it, and its chunks."""
    for name, of_name in files.lists():
        for file in of_name:
            yield (name, file.name, file.content_type), _rewound(file)


def _rewound(file: Any) -> Iterator[bytes]:
    """The chunks of an upload, and then it is at its beginning again."""
    yield from file.chunks()
    file.seek(0)


class Django:
    def __init__(self, *, in_loop: bool) -> None:
        self._in_loop = in_loop
        """Whether the guard can wait for the pieces of an async response. If not, that is a stream."""

    def respond(self, answer: Answer) -> HttpResponseBase:
        response = HttpResponse(answer.body, status=answer.status)
        del response["Content-Type"]
        for name, value in decoded(answer.headers):
            # Django keeps one value per name; several mean the same when adapted, but for cookies, which are not stored.
            response[name] = f"{response[name]}, {value}" if name in response else value
        return response

    def status(self, response: HttpResponseBase) -> int:
        status: int = response.status_code
        return status

    def seen(self, response: HttpResponseBase, rules: Rules) -> Answer | Awaitable[Answer]:
        headers = [(name.encode("latin-1"), value.encode("latin-1")) for name, value in response.items()]
        seen = Answer(response.status_code, headers, None)
        if not can_be_kept(response.status_code, headers, rules.response_limit):
            return seen
        if not response.streaming:
            body: bytes = response.content
            return seen if len(body) > rules.response_limit else Answer(seen.status, headers, body)
        if is_unbuffered(headers):
            return seen
        if response.is_async:
            return _seen_async(response, seen, rules) if self._in_loop else seen
        whole, response.streaming_content = read_whole(iter(response.streaming_content), rules)
        return Answer(seen.status, headers, whole)

    def add(self, response: HttpResponseBase, headers: Headers) -> None:
        for name, value in decoded(headers):
            response[name] = value


async def _seen_async(response: Any, seen: Answer, rules: Rules) -> Answer:
    whole, response.streaming_content = await read_whole_async(aiter(response.streaming_content), rules)
    return Answer(seen.status, seen.headers, whole)


DJANGO = Django(in_loop=False)
DJANGO_ASYNC = Django(in_loop=True)
