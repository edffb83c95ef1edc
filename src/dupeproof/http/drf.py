"""For Django REST framework: a decorator for its views, behind authentication, permissions and throttles.

What DRF does around a handler is done inside the guard: an exception becomes the answer it is, the response gets its
headers and is rendered. Then it is stored as it goes out. A replay goes past all that, for it has it.
"""

from collections.abc import Callable, Sequence
from functools import wraps
from inspect import Parameter, iscoroutinefunction, signature
from typing import Any

from dupeproof.errors import ConfigError, KeyInvalid
from dupeproof.http.bodies import announced_size
from dupeproof.http.fingerprints import form_digests
from dupeproof.http.handler_context import current
from dupeproof.http.order import GUARDED
from dupeproof.http.statuses import Fate
from dupeproof.http.view_adapters import READ_BEFORE, ReadBody
from dupeproof.http.views import guarded
from dupeproof.keys.fingerprints import digest

try:
    from django.http.request import RawPostDataException
    from django.utils.datastructures import MultiValueDict
    from rest_framework.exceptions import ParseError, UnsupportedMediaType, ValidationError
    from rest_framework.request import Request
    from rest_framework.settings import api_settings
    from rest_framework.views import APIView

    from dupeproof.http.django import DJANGO, DjangoRequest, uploads, warn_of_atomic_requests
    from dupeproof.http.django import Idempotent as DjangoIdempotent
except ModuleNotFoundError as exc:
    raise ModuleNotFoundError(
        "dupeproof.http.drf needs Django REST framework, which is not installed; "
        'run: pip install "dupeproof[drf]"',
        name=exc.name,
    ) from exc

__all__ = ["Idempotent"]

Handler = Callable[..., Any]
_NOTHING_DONE = (ValidationError, ParseError, UnsupportedMediaType)
"""The body was refused: a better one may come with the same key."""
_METHODS = {
    **dict.fromkeys(("get", "head", "options", "trace", "list", "retrieve"), frozenset[str]()),
    "put": frozenset({"PUT"}),
    "update": frozenset({"PUT", "PATCH"}),
    **dict.fromkeys(("delete", "destroy"), frozenset({"DELETE"})),
}
"""By which requests DRF calls methods of these names; of others it is not known."""


class Idempotent(DjangoIdempotent):
    """A decorator for functions below `@api_view`, and for methods of API views and viewsets.

        idempotent = Idempotent(store="redis://…", scope=lambda request: request.user.pk)

        class Orders(ModelViewSet):
            @idempotent
            def create(self, request, *args, **kwargs):
                return super().create(request, *args, **kwargs)

    The arguments are those of `dupeproof.http.django.Idempotent`; functions are given DRF's request, which knows its user.
    Authentication, permissions and throttles come before, for retries too. What DRF answers for an exception is an answer
    and no failure; after a ValidationError, or a body that cannot be parsed, the key may be used with a better body.
    """

    def __call__(self, view: Handler) -> Handler:
        _check_handler(view)
        policy = self._sync_policy()
        _check_methods(view, policy.rules.methods)

        @wraps(view)
        def guarded_view(*args: Any, **kwargs: Any) -> Any:
            request, api = _called_with(args)
            if policy.rules.methods.isdisjoint(api.allowed_methods):
                raise ConfigError(_never(_name(view), policy.rules.methods))
            warn_of_atomic_requests(request)
            around = current.get()
            left_to_drf = False

            def respond() -> Any:
                nonlocal left_to_drf
                if current.get() is around:  # no key, or a guard around this one has it
                    left_to_drf = True
                    return view(*args, **kwargs)
                return _Answering(api, request).answer(lambda: view(*args, **kwargs))

            response = guarded(policy, _Incoming(request, api), DJANGO, respond)
            if not left_to_drf:
                # For this request, which is all that DRF makes a view object for: it is finalized, or was when it was stored.
                api.finalize_response = lambda _, response, *__, **___: response
            return response

        setattr(guarded_view, GUARDED, True)
        return guarded_view


class _Answering:
    """What DRF does around a handler, in one request."""

    def __init__(self, api: APIView, request: Request) -> None:
        self._api = api
        self._request = request
        self._returned: Any = None
        self._whole: Any = None

    def answer(self, handle: Callable[[], Any]) -> Any:
        api = self._api
        handling = current.get()
        assert handling is not None
        handling.whole = self.whole
        try:
            try:
                response = handle()
            except Exception as exc:  # noqa: BLE001 - DRF raises again what it has no answer for
                if handling.fate is None and isinstance(exc, _NOTHING_DONE):
                    handling.fate = Fate.RELEASE
                handling.saw(exc)
                response = api.handle_exception(exc)
            return self.whole(response)
        except Exception:
            api.handle_exception = _raise  # it was asked, and is not to report the error twice
            raise

    def whole(self, response: Any) -> Any:
        """With its headers, and rendered. Once: the handler may want it before, to record it with its own work."""
        if self._whole is None or response is not self._returned:
            api = self._api
            made = api.finalize_response(self._request, response, *api.args, **api.kwargs)
            self._whole = made if getattr(made, "is_rendered", True) else made.render()
            self._returned = response
        return self._whole


def _raise(exc: Exception) -> None:
    raise exc


def _check_handler(view: Any) -> None:
    if isinstance(view, type):
        raise ConfigError(
            f"{view.__qualname__} is a class; decorate its methods, or the class with "
            'method_decorator(idempotent, name="create")'
        )
    if hasattr(view, "cls"):
        raise ConfigError(
            f"{_name(view)} is a whole view, and who calls it is only known inside; write the decorator below @api_view, "
            "or on the methods of the class"
        )
    if iscoroutinefunction(view):
        raise ConfigError(f"{_name(view)} is async, and Django REST framework is not; use a plain function")


def _check_methods(view: Handler, chosen: frozenset[str]) -> None:
    """Of what is known before the first request: a method by its name, an action by what it was made for."""
    name = _name(view)
    mapping = getattr(view, "mapping", None)
    if isinstance(mapping, dict):
        called_by = frozenset(method.upper() for method in mapping)
    elif name in _METHODS and _is_method(view):
        called_by = _METHODS[name]
    else:
        return
    if called_by.isdisjoint(chosen):
        raise ConfigError(_never(name, chosen))


def _is_method(view: Handler) -> bool:
    first: Parameter | None = next(iter(signature(view).parameters.values()), None)
    return first is not None and first.name == "self"


def _name(view: Any) -> str:
    return getattr(view, "__name__", type(view).__qualname__)


def _never(name: str, chosen: frozenset[str]) -> str:
    return (
        f"{name} is not called for {' or '.join(sorted(chosen))}, which is what is guarded, so no key would ever be looked "
        "at; leave the decorator away, or choose others with methods="
    )


def _called_with(args: tuple[Any, ...]) -> tuple[Request, APIView]:
    request = next((each for each in args[:2] if isinstance(each, Request)), None)
    if request is None:
        kinds = ", ".join(type(each).__qualname__ for each in args) or "nothing"
        raise ConfigError(
            f"called with {kinds} and not with Django REST framework's request; decorate a function below @api_view, or the "
            "method of a view that handles requests, such as post or create, not dispatch nor perform_create"
        )
    api = args[0] if isinstance(args[0], APIView) else request.parser_context.get("view")
    if not isinstance(api, APIView):
        raise ConfigError("this request has no view; call what as_view() or @api_view gives")
    return request, api


class _Incoming:
    """DRF's request. How the answer is to look, `.json` and `?format=json`, is not what is compared, as Accept is not."""

    def __init__(self, request: Request, api: APIView) -> None:
        self._django = DjangoRequest(request._request)  # noqa: SLF001 - documented by that name
        self.request = request
        self.method: str = request.method
        self.path = self._django.path.removesuffix("/")
        if suffix := getattr(api, "format_kwarg", None):
            self.path = self.path.removesuffix(f".{suffix}")
        self.environ = self._django.environ
        asked = (api_settings.URL_FORMAT_OVERRIDE or "").encode()
        pairs = self._django.query.split(b"&")
        self.query = b"&".join(each for each in pairs if each.partition(b"=")[0] != asked)

    def header_values(self, header: str) -> Sequence[str]:
        return self._django.header_values(header)

    def body(self, limit: int) -> ReadBody:
        """By its parsed content, where a parser that keeps no bytes has read it for a permission."""
        request = self.request
        plain = request._request  # noqa: SLF001
        read_away = plain._read_started and not hasattr(plain, "_body")  # noqa: SLF001
        if not read_away or plain.content_type == "multipart/form-data":
            return self._django.body(limit)
        announced_size(plain.META.get("CONTENT_LENGTH") or None, limit)
        try:
            data = request.data
            content = digest(dict(data.lists()) if isinstance(data, MultiValueDict) else data)
        except (RawPostDataException, KeyInvalid) as exc:
            raise ConfigError(READ_BEFORE.format("request.data")) from exc
        media_type = plain.content_type.encode("latin-1", "replace")
        return ReadBody(media_type, (content, *form_digests((), uploads(request.FILES))))
