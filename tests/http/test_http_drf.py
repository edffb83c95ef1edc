"""What views of Django REST framework may do, decorated."""

import sqlite3
import time
import warnings
from functools import partial
from uuid import uuid4

import httpx
import pytest
from django.core.files.uploadedfile import SimpleUploadedFile
from django.http import HttpResponse
from django.test import override_settings
from django.test.signals import setting_changed  # noqa: F401 - without it the URLs would not change
from django.urls import path
from django.utils.decorators import method_decorator
from http_servers import SNIPPETS, on

from support.places import django_alone, django_set_up

django_set_up()

from django.db import connections, transaction  # noqa: E402 - needs the settings
from rest_framework import exceptions, mixins, parsers, renderers  # noqa: E402
from rest_framework.authentication import BaseAuthentication  # noqa: E402
from rest_framework.decorators import action, api_view, permission_classes  # noqa: E402
from rest_framework.generics import CreateAPIView  # noqa: E402
from rest_framework.permissions import BasePermission  # noqa: E402
from rest_framework.response import Response  # noqa: E402
from rest_framework.routers import SimpleRouter  # noqa: E402
from rest_framework.serializers import CharField, Serializer  # noqa: E402
from rest_framework.test import APIClient  # noqa: E402
from rest_framework.throttling import BaseThrottle  # noqa: E402
from rest_framework.urlpatterns import format_suffix_patterns  # noqa: E402
from rest_framework.views import APIView  # noqa: E402
from rest_framework.viewsets import GenericViewSet, ViewSet  # noqa: E402

from dupeproof import AsyncOnce, Once  # noqa: E402
from dupeproof.errors import ConfigError  # noqa: E402
from dupeproof.http import SHARED, idempotency  # noqa: E402
from dupeproof.http.django import Idempotent as DjangoIdempotent  # noqa: E402
from dupeproof.http.drf import Idempotent  # noqa: E402
from dupeproof_lab.servers.base import wait_until  # noqa: E402

KEY = {"Idempotency-Key": "k"}
TEA = {"item": "tea"}


class ByToken(BaseAuthentication):
    """Who it is, is known inside DRF alone."""

    def authenticate(self, request):
        return request.headers.get("X-User", "someone"), "token"


class Order(Serializer):
    item = CharField(max_length=5)

    def create(self, validated_data):
        return validated_data


@pytest.fixture(autouse=True)
def known(monkeypatch):
    monkeypatch.setattr(APIView, "authentication_classes", [ByToken])
    monkeypatch.setattr(APIView, "renderer_classes", [renderers.JSONRenderer])


@pytest.fixture
def idempotent():
    return Idempotent(store="memory://", scope=lambda request: request.user)


@pytest.fixture
def client():
    """`client(view)`: asks it as a project would be asked, at /orders."""
    overrides = []

    def make(view, *, patterns=None, raises=False, **settings):
        patterns = [path("orders", view)] if patterns is None else patterns
        overrides.append(override_settings(ROOT_URLCONF=tuple(patterns), **settings))
        overrides[-1].enable()
        return APIClient(raise_request_exception=raises)

    yield make
    for override in reversed(overrides):
        override.disable()


def post(client, body=TEA, *, to="/orders", **headers):
    return client.post(to, body, format="json", headers={**KEY, **headers})


def is_replay(response):
    return response.headers.get("Idempotent-Replayed") == "true"


class Counted:
    """A handler that counts its runs, and answers as it is told."""

    def __init__(self, answer=None):
        self.runs = 0
        self._answer = answer or (
            lambda request: Response({"number": self.runs, "item": request.data["item"]}, 201)
        )

    def __call__(self, request):
        self.runs += 1
        return self._answer(request)


def function(idempotent, handle):
    @api_view(["POST"])
    @idempotent
    def order(request):
        return handle(request)

    return order


def api_class(idempotent, handle, **attributes):
    class Orders(APIView):
        @idempotent
        def post(self, request, **kwargs):
            return handle(request)

    for name, value in attributes.items():
        setattr(Orders, name, value)
    return Orders.as_view()


def viewset(idempotent, handle):
    class Orders(ViewSet):
        @idempotent
        def create(self, request):
            return handle(request)

    return Orders.as_view({"post": "create"})


def action_below(idempotent, handle):
    class Orders(ViewSet):
        @idempotent
        @action(detail=False, methods=["post"])
        def order(self, request):
            return handle(request)

    return _routed(Orders)


def action_above(idempotent, handle):
    class Orders(ViewSet):
        @action(detail=False, methods=["post"])
        @idempotent
        def order(self, request):
            return handle(request)

    return _routed(Orders)


def _routed(viewset):
    """What a router makes of it."""
    router = SimpleRouter(trailing_slash=False)
    router.register("all", viewset, basename="order")
    return next(each.callback for each in router.urls if each.name == "order-order")


def a_mixins_method(idempotent, handle):
    class Orders(mixins.CreateModelMixin, GenericViewSet):
        serializer_class = Order
        create = idempotent(mixins.CreateModelMixin.create)

        def perform_create(self, serializer):
            handle(self.request)
            super().perform_create(serializer)

    return Orders.as_view({"post": "create"})


def overridden(idempotent, handle):
    class Orders(CreateAPIView):
        serializer_class = Order

        @idempotent
        def create(self, request, *args, **kwargs):
            return super().create(request, *args, **kwargs)

        def perform_create(self, serializer):
            handle(self.request)
            super().perform_create(serializer)

    return Orders.as_view()


def decorated_class(idempotent, handle):
    @method_decorator(idempotent, name="create")
    class Orders(ViewSet):
        def create(self, request):
            return handle(request)

    return Orders.as_view({"post": "create"})


FORMS = [
    function,
    api_class,
    viewset,
    action_below,
    action_above,
    a_mixins_method,
    overridden,
    decorated_class,
]


@pytest.mark.parametrize("form", FORMS)
def test_a_retry_gets_the_same_response_and_does_not_run(client, idempotent, form):
    handle = Counted()
    asked = client(form(idempotent, handle))
    first, retry = post(asked), post(asked)
    assert (first.status_code, handle.runs) == (201, 1)
    assert (retry.status_code, retry.content) == (first.status_code, first.content)
    assert {**retry.headers} == {**first.headers, "Idempotent-Replayed": "true"}
    assert post(asked, {"item": "gold"}).status_code == 422
    assert post(asked, **{"X-User": "another"}).status_code == 201
    assert handle.runs == 2


@pytest.mark.parametrize("form", FORMS)
def test_without_a_key_a_view_is_as_it_was(client, idempotent, form):
    handle = Counted()
    asked = client(form(idempotent, handle))
    responses = [asked.post("/orders", TEA, format="json") for _ in range(2)]
    assert [response.status_code for response in responses] == [201, 201]
    assert handle.runs == 2
    assert all("POST" in response["Allow"] for response in responses)


def test_permissions_and_throttles_come_before(client, idempotent):
    class Customers(BasePermission):
        def has_permission(self, request, view):
            return request.user != "stranger"

    class Twice(BaseThrottle):
        asked = 0

        def allow_request(self, request, view):
            Twice.asked += 1
            return Twice.asked <= 2

    handle = Counted()
    policies = {"permission_classes": [Customers], "throttle_classes": [Twice]}
    asked = client(api_class(idempotent, handle, **policies))
    assert post(asked, **{"X-User": "stranger"}).status_code == 403
    assert [post(asked).status_code for _ in range(3)] == [201, 201, 429]
    assert handle.runs == 1


@pytest.mark.parametrize("form", ["above", "below"])
def test_policies_hold_above_the_decorator_and_below(client, idempotent, form):
    class Nobody(BasePermission):
        def has_permission(self, request, view):
            return False

    handle, closed = Counted(), permission_classes([Nobody])

    def order(request):
        return handle(request)

    decorated = closed(idempotent(order)) if form == "above" else idempotent(closed(order))
    assert post(client(api_view(["POST"])(decorated))).status_code == 403
    assert handle.runs == 0


@pytest.mark.parametrize("on_error", ["reopen", "store", "hold"])
@pytest.mark.parametrize(
    ("error", "status", "runs"),
    [
        (exceptions.NotFound(), 404, 1),
        (exceptions.MethodNotAllowed("POST"), 405, 1),
        (exceptions.APIException(code=418), 500, {"reopen": 2, "store": 1, "hold": 1}),
        (exceptions.PermissionDenied(), 403, 2),
        (exceptions.NotAuthenticated(), 403, 2),
        (exceptions.Throttled(wait=3), 429, 2),
        (exceptions.ValidationError({"item": "no"}), 400, 2),
        (exceptions.ParseError(), 400, 2),
        (exceptions.UnsupportedMediaType("text/csv"), 415, 2),
    ],
    ids=lambda value: type(value).__name__ if isinstance(value, Exception) else "",
)
def test_what_drf_answers_is_an_answer(client, on_error, error, status, runs):
    def fail(request):
        raise error

    handle = Counted(fail)
    idempotent = Idempotent(store="memory://", scope=SHARED, on_error=on_error)
    asked = client(viewset(idempotent, handle))
    responses = [post(asked) for _ in range(2)]
    assert responses[0].status_code == status
    assert handle.runs == (runs[on_error] if isinstance(runs, dict) else runs)
    if handle.runs == 1 and on_error != "hold":
        assert is_replay(responses[1])
        assert responses[1].content == responses[0].content


@pytest.mark.parametrize("form", [overridden, a_mixins_method])
def test_after_a_validation_error_the_key_takes_a_better_body(client, idempotent, form):
    handle = Counted()
    asked = client(form(idempotent, handle))
    refused = post(asked, {"item": "too long"})
    assert (refused.status_code, "item" in refused.json()) == (400, True)
    assert [post(asked).status_code for _ in range(2)] == [201, 201]
    assert handle.runs == 1


def test_a_handler_may_decide_that_a_validation_error_is_kept(client, idempotent):
    def charged_and_refused(request):
        idempotency.store()
        raise exceptions.ValidationError("the card was charged, the order was not taken")

    handle = Counted(charged_and_refused)
    asked = client(function(idempotent, handle))
    responses = [post(asked) for _ in range(2)]
    assert [response.status_code for response in responses] == [400, 400]
    assert (is_replay(responses[1]), handle.runs) == (True, 1)


def test_an_exception_handler_of_your_own_answers_once(client, idempotent):
    seen = []

    def with_code(exc, context):
        seen.append(type(exc).__name__)
        return Response({"code": "broken"}, status=409 if isinstance(exc, ValueError) else 404)

    def fail(request):
        raise (ValueError if request.data["item"] == "tea" else LookupError)

    handle = Counted(fail)
    asked = client(api_class(idempotent, handle, get_exception_handler=lambda self: with_code))
    assert [post(asked).status_code for _ in range(2)] == [409, 409]
    assert [post(asked, {"item": "x"}).status_code for _ in range(2)] == [404, 404]
    assert (handle.runs, seen) == (3, ["ValueError", "ValueError", "LookupError"])


def test_what_drf_has_no_answer_for_is_a_failure_that_it_sees_once(client, idempotent):
    attempts, seen = [], []

    def fail_once(request):
        attempts.append(idempotency.attempt())
        if attempts == [1]:
            raise RuntimeError("broken")
        return Response("done")

    def report(exc, context):
        seen.append(exc)

    view = api_class(idempotent, Counted(fail_once), get_exception_handler=lambda self: report)
    with pytest.raises(RuntimeError, match="broken"):
        post(client(view, raises=True))
    asked = client(view)
    assert [post(asked).content for _ in range(2)] == [b'"done"', b'"done"']
    assert (attempts, len(seen)) == ([1, 2], 1)


def test_what_cannot_be_rendered_is_a_failure(client, idempotent):
    handle = Counted(lambda request: Response({"what": object()}))
    asked = client(function(idempotent, handle))
    assert [post(asked).status_code for _ in range(2)] == [500, 500]
    assert handle.runs == 2


def test_a_view_that_finalizes_in_its_own_way_does_so_once(client, idempotent):
    finalized = []

    def finalize(self, request, response, *args, **kwargs):
        finalized.append(response.data)
        response.data = {"result": response.data}
        response["X-Api"] = "1"
        return super(view.cls, self).finalize_response(request, response, *args, **kwargs)

    view = api_class(idempotent, Counted(), finalize_response=finalize)
    asked = client(view)
    first, retry = post(asked), post(asked)
    assert first.json() == {"result": {"number": 1, "item": "tea"}}
    assert (retry.content, retry["X-Api"], is_replay(retry)) == (first.content, "1", True)
    assert len(finalized) == 1


@pytest.mark.parametrize("handler", [None, lambda exc, context: Response("broken", status=500)])
def test_what_is_recorded_with_the_work_is_what_was_sent(client, tmp_path, handler):
    """And it is sent again when the store has lost it, whatever answers exceptions."""
    connection = sqlite3.connect(tmp_path / "shop.db", check_same_thread=False)
    idempotency.create_schema(connection)
    wrapped = []

    def order(request):
        with connection, idempotency.transaction(connection) as keep:
            connection.execute("SELECT 1")
            return keep(Response({"at": time.time_ns()}, 201))

    def finalize(self, request, response, *args, **kwargs):
        wrapped.append(1)
        response.data = {"result": response.data}
        return APIView.finalize_response(self, request, response, *args, **kwargs)

    handlers = {} if handler is None else {"get_exception_handler": lambda self: handler}
    responses = []
    for _ in range(2):
        fresh = Idempotent(store="memory://", scope=SHARED)
        view = api_class(fresh, Counted(order), finalize_response=finalize, **handlers)
        responses.append(post(client(view)))
    assert list(responses[0].json()) == ["result"]
    assert (responses[1].status_code, responses[1].content) == (201, responses[0].content)
    assert is_replay(responses[1])
    assert len(wrapped) == (1 if handler is None else 2)
    unguarded = client(view).post("/orders", TEA, format="json")
    assert unguarded.json()["result"]["at"] != responses[0].json()["result"]["at"]
    connection.close()


class Shout(renderers.BaseRenderer):
    media_type = "text/shout"
    format = "shout"
    charset = "utf-8"

    def render(self, data, accepted_media_type=None, renderer_context=None):
        return str(data).upper()


@pytest.mark.parametrize(
    "asked_for",
    [
        ({}, {"Accept": "text/shout"}),
        ({}, {"to": "/orders.shout"}),
        ({}, {"to": "/orders?format=shout"}),
        ({"to": "/orders.shout"}, {"to": "/orders.json"}),
    ],
)
def test_whatever_media_type_a_retry_asks_for_it_gets_what_was_stored(client, idempotent, asked_for):
    handle = Counted()
    view = api_class(idempotent, handle, renderer_classes=[renderers.JSONRenderer, Shout])
    patterns = format_suffix_patterns([path("orders", view), path("orders/", view)])
    asked = client(view, patterns=patterns)
    first, retry = (post(asked, **where) for where in asked_for)
    assert (first.status_code, handle.runs) == (201, 1)
    assert (retry.content, retry["Content-Type"]) == (first.content, first["Content-Type"])
    assert retry["Vary"] == first["Vary"] == "Accept"
    assert post(asked, to="/orders?q=1").status_code == 422


class Lines(parsers.BaseParser):
    """Keeps no bytes, as parsers may."""

    media_type = "text/lines"

    def parse(self, stream, media_type=None, parser_context=None):
        return {"item": stream.read().decode()}


class Looks(BasePermission):
    def has_permission(self, request, view):
        return "item" in request.data


class LooksNot(BasePermission):
    pass


def upload(item):
    return {"item": item, "file": SimpleUploadedFile("a.txt", item.encode() * 100_000)}


BODIES = {
    "json": lambda item: {"data": {"item": item}, "format": "json"},
    "form": lambda item: {"data": f"item={item}", "content_type": "application/x-www-form-urlencoded"},
    "multipart": lambda item: {"data": {"item": item}, "format": "multipart"},
    "upload": lambda item: {"data": upload(item), "format": "multipart"},
    "lines": lambda item: {"data": item, "content_type": "text/lines"},
}


@pytest.mark.parametrize("method", ["post", "patch"])
@pytest.mark.parametrize("permission", [Looks, LooksNot])
@pytest.mark.parametrize("body", BODIES.values(), ids=BODIES)
def test_bodies_are_compared_also_when_a_permission_has_parsed_them(
    client, idempotent, body, permission, method
):
    def answer(request):
        sizes = [len(file.read()) for file in request.FILES.values()]
        return Response([request.data["item"], sizes], 201)

    handle = Counted(answer)
    view = api_class(
        idempotent,
        handle,
        permission_classes=[permission],
        parser_classes=[parsers.JSONParser, parsers.FormParser, parsers.MultiPartParser, Lines],
    )
    view.cls.patch = view.cls.post
    asked = getattr(client(view), method)
    responses = [asked("/orders", headers=KEY, **body(item)) for item in ("tea", "tea", "oil")]
    assert [response.status_code for response in responses] == [201, 201, 422]
    sizes = [300_000] if body is BODIES["upload"] else []
    assert responses[0].json() == responses[1].json() == ["tea", sizes]
    assert handle.runs == 1


def test_a_body_that_something_has_read_away_is_not_taken_for_empty(client, idempotent):
    class Reads(BasePermission):
        def has_permission(self, request, view):
            return request._request.read()

    view = api_class(idempotent, Counted(), permission_classes=[Reads])
    with pytest.raises(ConfigError, match=r"request\.data"):
        post(client(view, raises=True))


def test_a_parsed_body_is_limited_too(client):
    idempotent = Idempotent(store="memory://", scope=SHARED, request_limit=5)
    view = api_class(idempotent, Counted(), permission_classes=[Looks], parser_classes=[Lines])
    response = client(view).post("/orders", "too much", content_type="text/lines", headers=KEY)
    assert response.status_code == 413


def test_a_view_that_is_guarded_twice_runs_once(client, idempotent):
    handle = Counted()

    class Orders(ViewSet):
        @idempotent
        def create(self, request):
            return handle(request)

    class More(Orders):
        @idempotent
        def create(self, request):
            response = super().create(request)
            response.data["more"] = True
            return response

    asked = client(More.as_view({"post": "create"}))
    responses = [post(asked) for _ in range(2)]
    assert [response.json() for response in responses] == [{"number": 1, "item": "tea", "more": True}] * 2
    assert handle.runs == 1


def test_around_it_may_be_a_middleware_with_the_same_scope(client):
    handle = Counted()
    asked = client(
        function(Idempotent(store="memory://", scope=SHARED), handle),
        MIDDLEWARE=["dupeproof.http.django.IdempotencyMiddleware"],
        DUPEPROOF_HTTP={"store": "memory://", "scope": SHARED},
    )
    responses = [post(asked) for _ in range(2)]
    assert responses[0].content == responses[1].content
    assert (is_replay(responses[1]), handle.runs) == (True, 1)


class TestWrongUse:
    def test_above_api_view(self, idempotent):
        with pytest.raises(ConfigError, match="below @api_view"):

            @idempotent
            @api_view(["POST"])
            def order(request): ...

    def test_around_a_class_as_a_view(self, idempotent):
        with pytest.raises(ConfigError, match="methods of the class"):
            idempotent(APIView.as_view())

    def test_on_a_class(self, idempotent):
        with pytest.raises(ConfigError, match='name="create"'):

            @idempotent
            class Orders(APIView): ...

    def test_on_an_async_function(self, idempotent):
        with pytest.raises(ConfigError, match="async"):

            @idempotent
            async def order(request): ...

    @pytest.mark.parametrize("name", ["get", "list", "retrieve", "put", "delete", "destroy"])
    def test_on_a_method_that_is_not_guarded(self, idempotent, name):
        def handle(self, request): ...

        handle.__name__ = name
        with pytest.raises(ConfigError, match="methods="):
            idempotent(handle)

    def test_on_a_method_that_is_guarded_when_asked_for(self):
        def destroy(self, request): ...

        Idempotent(store="memory://", scope=SHARED, methods=["DELETE"])(destroy)

    def test_on_an_action_that_only_reads(self, idempotent):
        with pytest.raises(ConfigError, match="methods="):
            idempotent(action(detail=False, methods=["get"])(lambda self, request: None))

    def test_on_a_function_that_only_reads(self, client, idempotent):
        view = api_view(["GET"])(idempotent(lambda request: Response("read")))
        with pytest.raises(ConfigError, match="methods="):
            client(view, raises=True).get("/orders")

    @pytest.mark.parametrize("name", ["dispatch", "perform_create"])
    def test_on_what_handles_no_request_of_drf(self, client, idempotent, name):
        view = overridden(lambda handler: handler, Counted())
        method_decorator(idempotent, name=name)(view.cls)
        with pytest.raises(ConfigError, match="such as post or create"):
            post(client(view, raises=True))

    def test_with_a_guard_for_tasks(self):
        with pytest.raises(ConfigError, match=r"give Once\("):
            Idempotent(store=AsyncOnce("memory://"), scope=SHARED)(lambda request: None)
        Idempotent(store=Once("memory://"), scope=SHARED)(lambda request: None)

    @pytest.mark.parametrize("form", [function, api_class, viewset])
    def test_djangos_decorator_says_which_to_take_before_anything_runs(self, client, form):
        handle = Counted()
        idempotent = DjangoIdempotent(store="memory://", scope=SHARED)
        with pytest.raises(ConfigError, match=r"dupeproof\.http\.drf\.Idempotent"):
            post(client(form(idempotent, handle), raises=True))
        assert handle.runs == 0


def overridden_name(view, name):
    """Of a view that is warned of by its own."""
    view.view_class.__name__ = name
    return view


@pytest.fixture
def atomic_requests(tmp_path):
    with django_alone(f"sqlite:///{tmp_path}/shop.db"):
        connections.databases["default"]["ATOMIC_REQUESTS"] = True
        yield


@pytest.mark.usefixtures("atomic_requests")
class TestAtomicRequests:
    def test_a_decorator_warns_once_of_the_late_commit(self, client, idempotent):
        asked = client(function(idempotent, Counted()), raises=True)
        with pytest.warns(UserWarning, match=r"\.order: ATOMIC_REQUESTS .*non_atomic_requests") as told:
            assert [post(asked).status_code for _ in range(3)] == [201] * 3
        assert len(told) == 1

    def test_and_djangos_own(self, client):
        @DjangoIdempotent(store="memory://", scope=SHARED)
        def plain_order(request):
            return HttpResponse("done")

        asked = client(plain_order, raises=True)
        with pytest.warns(UserWarning, match="IdempotencyMiddleware") as told:
            assert [post(asked).content for _ in range(2)] == [b"done"] * 2
        assert len(told) == 1

    def test_what_drf_answers_for_an_exception_is_rolled_back(self, client, idempotent):
        """So that a 404 which is replayed is of work that was not done, and a body that was refused has left nothing."""
        connection = connections["default"]
        with connection.cursor() as cursor:
            cursor.execute("CREATE TABLE orders (item TEXT)")

        def order(request):
            with connection.cursor() as cursor:
                cursor.execute("INSERT INTO orders VALUES (%s)", [request.data["item"]])
            raise exceptions.NotFound if request.data["item"] == "tea" else exceptions.ValidationError

        handle = Counted(order)
        asked = client(overridden_name(function(idempotent, handle), "rolled_back"))
        with pytest.warns(UserWarning, match="rolled_back"):
            asked_for = [post(asked, {"item": item}).status_code for item in ("oil", "tea", "tea")]
        assert (asked_for, handle.runs) == ([400, 404, 404], 2)
        with connection.cursor() as cursor:
            assert cursor.execute("SELECT count(*) FROM orders").fetchone() == (0,)

    def test_but_not_of_a_view_that_is_left_out(self, client, idempotent):
        apart = transaction.non_atomic_requests(viewset(idempotent, Counted()))
        dispatched = viewset(idempotent, Counted()).cls
        method_decorator(transaction.non_atomic_requests, name="dispatch")(dispatched)
        for view in (apart, dispatched.as_view({"post": "create"})):
            with warnings.catch_warnings():
                warnings.simplefilter("error")
                assert post(client(view, raises=True)).status_code == 201

    def test_nor_of_the_middleware(self, client):
        asked = client(
            function(lambda handler: handler, Counted()),
            raises=True,
            MIDDLEWARE=["dupeproof.http.django.IdempotencyMiddleware"],
            DUPEPROOF_HTTP={"store": "memory://", "scope": SHARED},
        )
        with warnings.catch_warnings():
            warnings.simplefilter("error")
            assert post(asked).status_code == 201


@on(SNIPPETS, ["sqlite"])
class TestTheTutorial:
    """With models, a router, tokens and sessions, throttles and pages, on real servers."""

    @pytest.fixture
    def ann(self, shop):
        with httpx.Client(base_url=shop.url, headers={"Authorization": "Token ann"}, timeout=30) as client:
            yield client

    def test_a_snippet_is_made_once(self, ann):
        code, key = uuid4().hex, {"Idempotency-Key": uuid4().hex}
        first, retry = (ann.post("/snippets/", json={"code": code}, headers=key) for _ in range(2))
        assert (first.status_code, first.json()["owner"]) == (201, "ann")
        assert (retry.status_code, retry.content) == (201, first.content)
        assert retry.headers["idempotent-replayed"] == "true"
        same = ("content-type", "allow", "vary")
        assert [retry.headers[name] for name in same] == [first.headers[name] for name in same]
        assert snippets(ann, code) == 1

    def test_users_do_not_share_keys(self, ann):
        code, key = uuid4().hex, {"Idempotency-Key": uuid4().hex}
        users = [{"Authorization": f"Token {name}"} for name in ("ann", "bob", "nobody")]
        asked = [ann.post("/snippets/", json={"code": code}, headers=key | user) for user in users]
        assert [response.status_code for response in asked] == [201, 201, 401]
        assert [response.json().get("owner") for response in asked] == ["ann", "bob", None]

    def test_a_page_of_the_browsable_api_is_replayed_as_it_was(self, ann):
        code, key = uuid4().hex, {"Idempotency-Key": uuid4().hex}
        page = ann.post("/snippets/", json={"code": code}, headers=key | {"Accept": "text/html"})
        retry = ann.post("/snippets/", json={"code": code}, headers=key)
        assert (page.status_code, page.headers["content-type"]) == (201, "text/html; charset=utf-8")
        assert (retry.content, retry.headers["content-type"]) == (page.content, "text/html; charset=utf-8")
        assert snippets(ann, code) == 1

    def test_a_form_of_the_browsable_api_may_be_sent_twice(self, shop):
        """By a session, whose check against forgery has parsed the form before."""
        code, key = uuid4().hex, {"Idempotency-Key": uuid4().hex}
        with httpx.Client(base_url=shop.url, timeout=30) as browser:
            browser.get("/auth/login/")
            token = browser.cookies["csrftoken"]
            form = {"username": "ann", "password": "ann", "csrfmiddlewaretoken": token}
            assert browser.post("/auth/login/", data=form).headers["location"]
            form = {"code": code, "csrfmiddlewaretoken": browser.cookies["csrftoken"]}
            send = partial(browser.post, "/snippets/", headers=key, files={"none": b""})
            assert [send(data=form).status_code for _ in range(2)] == [201, 201]
            assert send(data=form | {"code": "other"}).status_code == 422
            assert snippets(browser, code) == 1

    def test_what_does_not_validate_leaves_its_key(self, ann):
        code, key = uuid4().hex, {"Idempotency-Key": uuid4().hex}
        bodies = [{"code": ""}, {"code": code}, {"code": code}]
        asked = [ann.post("/snippets/", json=body, headers=key) for body in bodies]
        assert [response.status_code for response in asked] == [400, 201, 201]
        assert snippets(ann, code) == 1

    def test_a_patch_and_an_action_take_effect_once(self, ann):
        made = ann.post("/snippets/", json={"code": "x"}).json()
        key, starred = {"Idempotency-Key": uuid4().hex}, {"Idempotency-Key": uuid4().hex}
        change = partial(ann.patch, f"/snippets/{made['id']}/", headers=key)
        assert [change(json={"stars": 5}).json()["stars"] for _ in range(2)] == [5, 5]
        star = partial(ann.post, f"/snippets/{made['id']}/star/", headers=starred)
        assert [star().json()["stars"] for _ in range(2)] == [6, 6]
        assert ann.get(f"/snippets/{made['id']}/").json()["stars"] == 6

    def test_a_client_that_hangs_up_and_comes_back_gets_the_response(self, ann):
        code, key = uuid4().hex, {"Idempotency-Key": uuid4().hex}
        send = partial(ann.post, "/snippets/?seconds=1.5", json={"code": code}, headers=key)
        with pytest.raises(httpx.ReadTimeout):
            send(timeout=0.5)
        assert send().json()["code"] == "in-progress"
        wait_until(lambda: send().status_code == 201, what="the response")
        assert send().headers["idempotent-replayed"] == "true"
        assert snippets(ann, code) == 1


def snippets(client, code):
    return [each["code"] for each in client.get("/snippets/?format=json").json()].count(code)
