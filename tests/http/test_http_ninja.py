"""What operations of django-ninja may do, decorated."""

from functools import partial
from inspect import isawaitable
from typing import Any

import pytest
from asgiref.sync import async_to_sync
from django.core.exceptions import PermissionDenied
from django.core.files.uploadedfile import SimpleUploadedFile
from django.http import Http404, HttpResponse
from django.test import AsyncClient, Client, override_settings
from django.test.signals import setting_changed  # noqa: F401 - without it the URLs would not change
from django.urls import path
from pydantic import field_validator

from support.places import django_set_up

django_set_up()

from ninja import File, Form, Header, NinjaAPI, Router, Schema, Status, UploadedFile  # noqa: E402
from ninja.decorators import decorate_view  # noqa: E402
from ninja.errors import HttpError, ValidationError  # noqa: E402
from ninja.operation import Operation  # noqa: E402
from ninja.security import HttpBearer  # noqa: E402
from ninja.testing import TestAsyncClient, TestClient  # noqa: E402
from ninja.throttling import BaseThrottle  # noqa: E402

from dupeproof import AsyncOnce, Once  # noqa: E402
from dupeproof.errors import ConfigError  # noqa: E402
from dupeproof.http import SHARED, idempotency  # noqa: E402
from dupeproof.http.django import Idempotent as DjangoIdempotent  # noqa: E402
from dupeproof.http.ninja import Idempotent  # noqa: E402

KEY = {"Idempotency-Key": "k"}
TEA = {"item": "tea"}


class New(Schema):
    item: str


class Made(Schema):
    number: int
    item: str


class Bearer(HttpBearer):
    """Counts, for it must not be asked twice."""

    def __init__(self):
        super().__init__()
        self.asked = 0

    def authenticate(self, request, token):
        self.asked += 1
        return {"user": token} if token != "stranger" else None


class Counted:
    """A function that counts its runs, and returns what it is told."""

    def __init__(self, answer: Any = None):
        self.runs = 0
        self._answer = answer or (
            lambda new: Status(201, {"number": self.runs, "item": new.item, "secret": 1})
        )

    def __call__(self, new):
        self.runs += 1
        return self._answer(new)


class Ops:
    """Makes operations, and asks them: sync ones under WSGI, async ones under ASGI."""

    def __init__(self, *, is_async):
        self.is_async = is_async
        self._overrides = []

    def function(self, handle):
        """One that django-ninja takes, of this kind."""
        if not self.is_async:

            def order(request, new: New):
                return handle(new)

            return order

        async def order(request, new: New):
            return handle(new)

        return order

    def serve(self, api, **settings):
        self._overrides.append(override_settings(ROOT_URLCONF=(path("", api.urls),), **settings))
        self._overrides[-1].enable()

    def post(self, body=TEA, *, to="/orders", raises=False, as_="tea-lover", **given):
        given = given or {"data": body, "content_type": "application/json"}
        headers = {**KEY, "Authorization": f"Bearer {as_}"}
        if not self.is_async:
            return Client(raise_request_exception=raises).post(to, headers=headers, **given)

        async def main():
            return await AsyncClient(raise_request_exception=raises).post(to, headers=headers, **given)

        return async_to_sync(main)()

    def close(self):
        for override in reversed(self._overrides):
            override.disable()


@pytest.fixture(params=["sync", "async"])
def ops(request, monkeypatch):
    monkeypatch.delenv("DJANGO_ALLOW_ASYNC_UNSAFE")
    made = Ops(is_async=request.param == "async")
    yield made
    made.close()


@pytest.fixture
def idempotent():
    return Idempotent(store="memory://", scope=lambda request: request.auth["user"])


def serve(ops, idempotent, handle, *, auth=None, **options):
    api = NinjaAPI(auth=auth or Bearer())
    options.setdefault("response", {201: Made})
    api.post("/orders", **options)(idempotent(ops.function(handle)))
    ops.serve(api)
    return api


def is_replay(response):
    return response.headers.get("Idempotent-Replayed") == "true"


def test_a_retry_gets_the_same_response_and_does_not_run(ops, idempotent):
    handle = Counted()
    serve(ops, idempotent, handle)
    first, retry = ops.post(), ops.post()
    assert (first.status_code, first.json()) == (201, {"number": 1, "item": "tea"})
    assert (retry.status_code, retry.content) == (first.status_code, first.content)
    assert {**retry.headers} == {**first.headers, "Idempotent-Replayed": "true"}
    assert ops.post({"item": "gold"}).status_code == 422
    assert ops.post(as_="another").json()["number"] == 2
    assert handle.runs == 2


def test_authentication_and_throttles_come_before_and_are_asked_once(ops, idempotent):
    class Twice(BaseThrottle):
        asked = 0

        def allow_request(self, request):
            Twice.asked += 1
            return Twice.asked <= 2

    handle, auth = Counted(), Bearer()
    serve(ops, idempotent, handle, auth=auth, throttle=Twice())
    assert ops.post(as_="stranger").status_code == 401
    assert [ops.post().status_code for _ in range(3)] == [201, 201, 429]
    assert (handle.runs, auth.asked, Twice.asked) == (1, 4, 3)


def test_without_a_key_an_operation_is_as_it_was(ops, idempotent):
    handle, auth = Counted(), Bearer()
    api = NinjaAPI(auth=auth)
    api.post("/orders", response={201: Made})(
        Idempotent(store="memory://", scope=SHARED, key="X-Other")(ops.function(handle))
    )
    ops.serve(api)
    assert [ops.post().json()["number"] for _ in range(2)] == [1, 2]
    assert auth.asked == 2


@pytest.mark.parametrize(
    "where", ["router", "router with another prefix", "router in a router", "added by name"]
)
def test_routers_may_have_it_too(ops, idempotent, where):
    handle, router = Counted(), Router()
    function = idempotent(ops.function(handle))
    if where == "added by name":
        router.add_api_operation("/orders", ["POST"], function, response={201: Made})
    else:
        router.post("/orders", response={201: Made})(function)
    api = NinjaAPI(auth=Bearer())
    if where == "router in a router":
        outer = Router()
        outer.add_router("/v1", router)
        router = outer
    api.add_router("", router)
    if where == "router with another prefix":
        api.add_router("/again", router, url_name_prefix="again")
    ops.serve(api)
    to = "/v1/orders" if where == "router in a router" else "/orders"
    responses = [ops.post(to=to) for _ in range(2)]
    assert [response.json()["number"] for response in responses] == [1, 1]
    if where == "router with another prefix":
        assert ops.post(to="/again/orders").status_code == 422
    assert handle.runs == 1


def test_path_and_query_count(ops, idempotent):
    ran = []

    def act(number, much):
        ran.append((number, much))
        return {"number": number, "much": much}

    if ops.is_async:

        async def order(request, number: int, much: int = 1):
            return act(number, much)
    else:

        def order(request, number: int, much: int = 1):
            return act(number, much)

    api = NinjaAPI(auth=Bearer())
    api.post("/orders/{number}")(idempotent(order))
    ops.serve(api)
    asked = [
        ops.post(None, to=to)
        for to in ("/orders/7?much=2", "/orders/7?much=2", "/orders/8?much=2", "/orders/7")
    ]
    assert [response.status_code for response in asked] == [200, 200, 422, 422]
    assert asked[1].json() == {"number": 7, "much": 2}
    assert ran == [(7, 2)]


@pytest.mark.parametrize("on_error", ["reopen", "store", "hold"])
@pytest.mark.parametrize(
    ("error", "status", "runs"),
    [
        (Http404(), 404, 1),
        (HttpError(418, "no"), 418, 1),
        (HttpError(409, "no"), 409, 2),
        (HttpError(503, "no"), 503, {"reopen": 2, "store": 1, "hold": 1}),
        (PermissionDenied(), 403, 2),
        (ValidationError([{"loc": ["body"]}]), 422, 2),
    ],
    ids=str,
)
def test_what_ninja_or_django_answers_is_an_answer(ops, on_error, error, status, runs):
    def fail(new):
        raise error

    handle = Counted(fail)
    serve(ops, Idempotent(store="memory://", scope=SHARED, on_error=on_error), handle)
    responses = [ops.post() for _ in range(2)]
    assert responses[0].status_code == status
    assert handle.runs == (runs[on_error] if isinstance(runs, dict) else runs)
    if handle.runs == 1 and on_error != "hold":
        assert is_replay(responses[1])
        assert responses[1].content == responses[0].content


@pytest.mark.parametrize("bad", [{"item": 3}, b"{not json"])
def test_what_does_not_validate_leaves_its_key_to_a_better_body(ops, idempotent, bad):
    handle = Counted()
    serve(ops, idempotent, handle)
    assert ops.post(bad).status_code in (400, 422)
    assert [ops.post().status_code for _ in range(2)] == [201, 201]
    assert handle.runs == 1


def test_a_retry_is_not_validated_again(ops, idempotent):
    """Which may ask the database, where the first request has left what is taken now."""
    taken = []

    class Untaken(Schema):
        item: str

        @field_validator("item")
        @classmethod
        def is_free(cls, item):
            if item in taken:
                raise ValueError("taken")
            return item

    def take(new):
        taken.append(new.item)
        return {"item": new.item}

    if ops.is_async:

        async def order(request, new: Untaken):
            return take(new)
    else:

        def order(request, new: Untaken):
            return take(new)

    api = NinjaAPI(auth=Bearer())
    api.post("/orders")(idempotent(order))
    ops.serve(api)
    assert [ops.post().status_code for _ in range(2)] == [200, 200]
    assert taken == ["tea"]


def test_a_function_may_decide_that_a_validation_error_is_kept(ops, idempotent):
    def charged_and_refused(new):
        idempotency.store()
        raise ValidationError([{"loc": ["card"]}])

    handle = Counted(charged_and_refused)
    serve(ops, idempotent, handle)
    responses = [ops.post() for _ in range(2)]
    assert [response.status_code for response in responses] == [422, 422]
    assert (is_replay(responses[1]), handle.runs) == (True, 1)


def test_handlers_of_your_own_answer(ops, idempotent):
    def fail(new):
        raise LookupError

    handle = Counted(fail)
    api = serve(ops, idempotent, handle)
    api.exception_handler(LookupError)(
        lambda request, exc: api.create_response(request, {"gone": 1}, status=410)
    )
    responses = [ops.post() for _ in range(2)]
    assert [(response.status_code, response.json()) for response in responses] == [(410, {"gone": 1})] * 2
    assert handle.runs == 1


def test_any_other_error_is_a_failure(ops, idempotent):
    attempts = []

    def fail_once(new):
        attempts.append(idempotency.attempt())
        if attempts == [1]:
            raise RuntimeError("broken")
        return Status(201, {"number": 2, "item": "tea"})

    serve(ops, idempotent, Counted(fail_once))
    with pytest.raises(RuntimeError, match="broken"):
        ops.post(raises=True)
    assert [ops.post().status_code for _ in range(2)] == [201, 201]
    assert attempts == [1, 2]


def test_what_the_response_schema_refuses_is_a_failure(ops, idempotent):
    handle = Counted(lambda new: Status(201, {"number": "many"}))
    serve(ops, idempotent, handle)
    assert [ops.post().status_code for _ in range(2)] == [500, 500]
    assert handle.runs == 2


def test_what_a_function_says_of_its_response_is_stored(ops, idempotent):
    if ops.is_async:

        async def order(request, response: HttpResponse):
            response["X-Number"] = "7"
            return 7
    else:

        def order(request, response: HttpResponse):
            response["X-Number"] = "7"
            return 7

    api = NinjaAPI(auth=Bearer())
    api.post("/orders", response=int)(idempotent(order))
    ops.serve(api)
    assert [(each["X-Number"], each.content) for each in (ops.post(), ops.post())] == [("7", b"7")] * 2


def test_forms_and_uploads_are_compared(ops, idempotent):
    ran = []

    if ops.is_async:

        async def order(request, item: Form[str], file: File[UploadedFile]):
            ran.append(item)
            return [item, file.size]
    else:

        def order(request, item: Form[str], file: File[UploadedFile]):
            ran.append(item)
            return [item, file.size]

    api = NinjaAPI(auth=Bearer())
    api.post("/orders")(idempotent(order))
    ops.serve(api)
    contents = [b"leaf" * 1000, b"leaf" * 1000, b"dust" * 1000]
    asked = [
        ops.post(data={"item": "tea", "file": SimpleUploadedFile("a.txt", content)}) for content in contents
    ]
    assert [response.status_code for response in asked] == [200, 200, 422]
    assert asked[1].json() == ["tea", 4000]
    assert ran == ["tea"]


def test_other_decorators_of_views_stand_around_it(ops, idempotent):
    def stamped(run):
        def with_stamp(request, **kwargs):
            response = run(request, **kwargs)
            if isawaitable(response):

                async def later():
                    return stamp(await response)

                return later()
            return stamp(response)

        def stamp(response):
            response["X-Stamp"] = "1"
            return response

        return with_stamp

    handle = Counted()
    api = NinjaAPI(auth=Bearer())
    api.post("/orders", response={201: Made})(decorate_view(stamped)(idempotent(ops.function(handle))))
    ops.serve(api)
    responses = [ops.post() for _ in range(2)]
    assert [response["X-Stamp"] for response in responses] == ["1", "1"]
    assert (is_replay(responses[1]), handle.runs) == (True, 1)


def test_decorators_of_functions_that_an_api_adds_stand_inside(ops, idempotent):
    seen = []

    def noted(function):
        def call(request, **kwargs):
            seen.append(kwargs["new"].item)
            return function(request, **kwargs)

        return call

    handle, router = Counted(), Router()
    router.post("/orders", response={201: Made})(idempotent(ops.function(handle)))
    router.add_decorator(noted, mode="operation")
    api = NinjaAPI(auth=Bearer())
    api.add_router("", router)
    ops.serve(api)
    assert [ops.post().status_code for _ in range(2)] == [201, 201]
    assert seen == ["tea"]


@pytest.mark.parametrize("ops", ["sync"], indirect=True)
def test_the_test_client_of_ninja_can_ask_it(ops, idempotent):
    handle = Counted()
    asked = TestClient(serve(ops, idempotent, handle))
    headers = {**KEY, "Authorization": "Bearer me"}
    responses = [asked.post("/orders", json=TEA, headers=headers) for _ in range(2)]
    assert responses[0].content == responses[1].content
    assert (responses[1]["Idempotent-Replayed"], handle.runs) == ("true", 1)


@pytest.mark.parametrize("ops", ["async"], indirect=True)
async def test_and_the_async_one(ops, idempotent):
    handle = Counted()
    asked = TestAsyncClient(serve(ops, idempotent, handle))
    headers = {**KEY, "Authorization": "Bearer me"}
    responses = [await asked.post("/orders", json=TEA, headers=headers) for _ in range(2)]
    assert responses[0].content == responses[1].content
    assert (responses[1]["Idempotent-Replayed"], handle.runs) == ("true", 1)


class TestDocument:
    def test_the_header_is_all_that_is_added(self, ops, idempotent):
        documents = []
        for decorate in (lambda function: function, idempotent):
            api = NinjaAPI(auth=Bearer())
            router = Router()
            router.post("/orders", response={201: Made}, openapi_extra={"x-mine": 1})(
                decorate(ops.function(Counted()))
            )
            api.add_router("", router)
            api.add_router("/again", router, url_name_prefix="again")
            ops.serve(api)
            documents.append(api.get_openapi_schema())
        plain, guarded = documents
        for operations in guarded["paths"].values():
            added = operations["post"]["parameters"].pop()
            assert (added["name"], added["in"], added["required"]) == ("Idempotency-Key", "header", False)
        assert guarded == plain

    def test_a_header_that_the_function_takes_itself_is_not_added(self, ops):
        if ops.is_async:

            async def order(request, idempotency_key: Header[str]): ...
        else:

            def order(request, idempotency_key: Header[str]): ...

        api = NinjaAPI()
        api.post("/orders")(Idempotent(store="memory://", scope=SHARED, required=True)(order))
        ops.serve(api)
        (parameter,) = api.get_openapi_schema()["paths"]["/orders"]["post"]["parameters"]
        assert parameter["in"] == "header"


class TestWrongUse:
    def test_above_the_operation(self, ops, idempotent):
        function = NinjaAPI().post("/orders")(ops.function(Counted()))
        with pytest.raises(ConfigError, match=r"below @api\.post"):
            idempotent(function)

    @pytest.mark.parametrize("what", [Router, "order"])
    def test_on_no_function(self, idempotent, what):
        with pytest.raises(ConfigError, match=r"below @api\.post"):
            idempotent(what)

    def test_on_an_operation_that_only_reads(self, ops, idempotent):
        with pytest.raises(ConfigError, match="methods="):
            NinjaAPI().get("/orders")(idempotent(ops.function(Counted())))

    def test_above_another_decorator_of_views(self, ops, idempotent):
        nearer = decorate_view(partial)
        with pytest.raises(ConfigError, match="above this one"):
            NinjaAPI().post("/orders")(idempotent(nearer(ops.function(Counted()))))

    def test_with_a_guard_of_the_other_kind(self, ops):
        other = Once("memory://") if ops.is_async else AsyncOnce("memory://")
        idempotent = Idempotent(store=other, scope=SHARED)
        with pytest.raises(ConfigError, match=r"give AsyncOnce\(" if ops.is_async else r"give Once\("):
            NinjaAPI().post("/orders")(idempotent(ops.function(Counted())))

    def test_djangos_decorator_says_which_to_take(self, ops):
        idempotent = DjangoIdempotent(store="memory://", scope=SHARED)
        with pytest.raises(ConfigError, match=r"dupeproof\.http\.ninja\.Idempotent"):
            NinjaAPI().post("/orders")(idempotent(ops.function(Counted())))

    def test_with_a_ninja_that_checks_in_another_way(self, ops, idempotent, monkeypatch):
        monkeypatch.setattr(Operation, "_run_checks", None)
        monkeypatch.setattr("ninja.operation.AsyncOperation._run_checks", None)
        with pytest.raises(ConfigError, match="version of django-ninja"):
            NinjaAPI().post("/orders")(idempotent(ops.function(Counted())))
