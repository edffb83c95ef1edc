"""Requests whose effect may have happened: errors that hold their keys in every framework, and lookups that settle them."""

import contextlib
import sys

import django.test
import pytest
from django.http import HttpResponse
from django.test import override_settings
from django.test.signals import setting_changed  # noqa: F401 - without it the URLs would not change
from django.urls import path
from fastapi import APIRouter, Depends, FastAPI, HTTPException
from flask import Flask
from flask import abort as flask_abort
from http_asking import KEY, Counter, asking, client_of, guarded, twice
from pydantic import BaseModel
from starlette.responses import JSONResponse
from werkzeug.middleware.proxy_fix import ProxyFix
from werkzeug.test import Client

from support.places import django_set_up

django_set_up()

from ninja import NinjaAPI  # noqa: E402 - reads the settings
from rest_framework.decorators import api_view, authentication_classes  # noqa: E402
from rest_framework.response import Response  # noqa: E402

from dupeproof import AsyncOnce, Done, NotDone, Once, Unknown, child_key  # noqa: E402
from dupeproof.http import SHARED, Answer, IdempotencyMiddleware, idempotency, key_for, wsgi  # noqa: E402
from dupeproof.http import django as http_django  # noqa: E402
from dupeproof.http import drf as http_drf  # noqa: E402
from dupeproof.http import fastapi as http_fastapi  # noqa: E402
from dupeproof.http import flask as http_flask  # noqa: E402
from dupeproof.http import ninja as http_ninja  # noqa: E402

OPTIONS = {"store": "memory://", "scope": SHARED, "hold_on": (TimeoutError,)}


class Gateway:
    """Called by views. It does what it was asked, and does not answer; or refuses."""

    def __init__(self, error):
        self.error = error
        self.calls = 0
        self.before = lambda: None

    def call(self, *_):
        self.before()
        self.calls += 1
        raise self.error

    def view(self):
        self.call()

    async def asgi(self, _):
        self.call()

    async def awaited(self):
        self.call()


def flask_app(gateway, decorate=lambda view: view):
    app = Flask(__name__)
    app.post("/")(decorate(gateway.view))
    return app


def in_flask(gateway, _):
    return Client(flask_app(gateway, http_flask.Idempotent(**OPTIONS)))


def around_flask(gateway, _):
    app = flask_app(gateway)
    app.wsgi_app = wsgi.IdempotencyMiddleware(app.wsgi_app, **OPTIONS)
    return Client(app)


def in_flask_with_an_error_handler(gateway, _):
    app = flask_app(gateway, http_flask.Idempotent(**OPTIONS))
    app.register_error_handler(TimeoutError, lambda _: ("the provider does not answer", 504))
    return Client(app)


def django_client(view, settings, **others):
    settings.enter_context(override_settings(ROOT_URLCONF=(path("", view),), **others))
    return django.test.Client(raise_request_exception=False)


def in_django(gateway, settings):
    return django_client(http_django.Idempotent(**OPTIONS)(gateway.call), settings)


def around_django(gateway, settings):
    middleware = ["dupeproof.http.django.IdempotencyMiddleware"]
    return django_client(gateway.call, settings, MIDDLEWARE=middleware, DUPEPROOF_HTTP=OPTIONS)


def in_drf(gateway, settings):
    view = http_drf.Idempotent(**OPTIONS)(gateway.call)
    anonymous = {"UNAUTHENTICATED_USER": None}  # the usual one needs Django's tables
    view = api_view(["POST"])(authentication_classes([])(view))
    return django_client(view, settings, REST_FRAMEWORK=anonymous)


def in_ninja(gateway, settings):
    api = NinjaAPI(urls_namespace=f"doubt-{id(gateway)}")

    @http_ninja.Idempotent(**OPTIONS)
    def order(request):
        return gateway.call()

    api.post("")(order)
    return django_client(api.urls, settings)


def post(client):
    with contextlib.closing(client.post("/", headers=KEY)) as response:
        return response


@pytest.fixture
def settings():
    with contextlib.ExitStack() as stack:
        yield stack


SYNC = [in_flask, around_flask, in_flask_with_an_error_handler, in_django, around_django, in_drf, in_ninja]


@pytest.mark.parametrize("app", SYNC)
@pytest.mark.parametrize(("error", "runs"), [(TimeoutError, 1), (ConnectionRefusedError, 2)])
def test_an_error_that_leaves_a_doubt_holds_the_key(app, settings, error, runs):
    gateway = Gateway(error("pay"))
    client = app(gateway, settings)
    assert post(client).status_code >= 500
    assert post(client).status_code == (409 if runs == 1 else 500)
    assert gateway.calls == runs


def around_starlette(gateway):
    return asking(gateway.asgi, **OPTIONS)


def around_fastapi(gateway):
    app = FastAPI()
    app.post("/")(gateway.awaited)
    app.add_middleware(IdempotencyMiddleware, **OPTIONS)
    return client_of(app)


def behind_a_dependency(gateway):
    app = FastAPI()
    app.post("/", dependencies=[Depends(http_fastapi.idempotent(**OPTIONS))])(gateway.awaited)
    return client_of(app)


@pytest.mark.parametrize("app", [around_starlette, around_fastapi, behind_a_dependency])
@pytest.mark.parametrize(("error", "runs"), [(TimeoutError, 1), (ConnectionRefusedError, 2)])
async def test_so_it_does_where_handlers_are_async(app, error, runs):
    gateway = Gateway(error("pay"))
    async with app(gateway) as client:
        assert (await client.post("/", headers=KEY)).status_code == 500
        assert (await client.post("/", headers=KEY)).status_code == (409 if runs == 1 else 500)
    assert gateway.calls == runs


class Answers:
    """What an app has to say for errors: in the words of each framework, with a status of the test's."""

    status = 502

    @classmethod
    def of_flask(cls, _):
        return "no", cls.status

    @classmethod
    async def of_starlette(cls, *_):
        return JSONResponse({}, cls.status)

    @classmethod
    def of_django(cls, *_):
        return HttpResponse(status=cls.status)

    @classmethod
    def of_drf(cls, *_):
        return Response({}, status=cls.status)


class Answering:
    """A middleware of Django's that answers for errors of views."""

    def __init__(self, get_response):
        self.get_response = get_response

    def __call__(self, request):
        return self.get_response(request)

    def process_exception(self, request, exception):
        return Answers.of_django()


def answered_in_flask(gateway, _):
    app = flask_app(gateway, http_flask.Idempotent(**OPTIONS))
    app.register_error_handler(OSError, Answers.of_flask)
    return Client(app)


def answered_by_flask_inside(gateway, _):
    app = flask_app(gateway)
    app.register_error_handler(OSError, Answers.of_flask)
    app.wsgi_app = wsgi.IdempotencyMiddleware(ProxyFix(app.wsgi_app), **OPTIONS)
    return Client(app)


def answered_by_wsgi(gateway, _):
    def app(environ, start_response):
        try:
            gateway.call()
        except OSError:
            start_response(f"{Answers.status} No", [("Content-Length", "2")], sys.exc_info())
        return [b"no"]

    return Client(wsgi.IdempotencyMiddleware(app, **OPTIONS))


def answered_by_wsgi_in_its_except(gateway, _):
    def app(environ, start_response):
        try:
            gateway.call()
        except OSError:
            start_response(f"{Answers.status} No", [("Content-Length", "2")])
        return [b"no"]

    return Client(wsgi.IdempotencyMiddleware(app, **OPTIONS))


OURS = "dupeproof.http.django.IdempotencyMiddleware"
THEIRS = f"{__name__}.Answering"


def answered_by_django_outside(gateway, settings, order=(THEIRS, OURS)):
    return django_client(gateway.call, settings, MIDDLEWARE=order, DUPEPROOF_HTTP=OPTIONS)


def answered_by_django_inside(gateway, settings):
    return answered_by_django_outside(gateway, settings, order=(OURS, THEIRS))


def answered_by_django_around_async_views(gateway, settings):
    async def view(request):
        gateway.call()

    return django_client(view, settings, MIDDLEWARE=(THEIRS, OURS), DUPEPROOF_HTTP=OPTIONS)


def drf_view(view, settings, **others):
    rest = {"UNAUTHENTICATED_USER": None, "EXCEPTION_HANDLER": Answers.of_drf}
    view = api_view(["POST"])(authentication_classes([])(view))
    return django_client(view, settings, REST_FRAMEWORK=rest, **others)


def answered_in_drf(gateway, settings):
    return drf_view(http_drf.Idempotent(**OPTIONS)(gateway.call), settings)


def answered_by_drf_inside(gateway, settings):
    def view(request):
        gateway.call()

    return drf_view(view, settings, MIDDLEWARE=(OURS,), DUPEPROOF_HTTP=OPTIONS)


def answered_in_ninja(gateway, settings, *, is_async=False):
    api = NinjaAPI(urls_namespace=f"answered-{id(gateway)}")
    api.add_exception_handler(OSError, Answers.of_django)

    async def order_async(request):
        gateway.call()

    def order(request):
        gateway.call()

    api.post("")(http_ninja.Idempotent(**OPTIONS)(order_async if is_async else order))
    return django_client(api.urls, settings)


def answered_in_async_ninja(gateway, settings):
    return answered_in_ninja(gateway, settings, is_async=True)


SEEN = [
    answered_in_flask,
    answered_by_flask_inside,
    answered_by_wsgi,
    answered_by_wsgi_in_its_except,
    answered_by_django_outside,
    answered_by_django_around_async_views,
    answered_in_drf,
    answered_in_ninja,
    answered_in_async_ninja,
]
UNSEEN = [answered_by_django_inside, answered_by_drf_inside]
DOUBTS = [(TimeoutError, 1), (ConnectionRefusedError, 2)]


@pytest.mark.parametrize("app", SEEN)
@pytest.mark.parametrize("status", [502, 429, 409])
@pytest.mark.parametrize(("error", "runs"), DOUBTS)
def test_an_error_that_the_app_answers_holds_too(app, settings, monkeypatch, status, error, runs):
    monkeypatch.setattr(Answers, "status", status)
    gateway = Gateway(error("pay"))
    client = app(gateway, settings)
    assert post(client).status_code == status
    assert post(client).status_code == (409 if runs == 1 else status)
    assert gateway.calls == runs


@pytest.mark.parametrize("app", UNSEEN)
@pytest.mark.parametrize("error", [TimeoutError, ConnectionRefusedError])
def test_a_5xx_whose_error_the_guard_does_not_see_is_held(app, settings, error):
    gateway = Gateway(error("pay"))
    client = app(gateway, settings)
    assert [post(client).status_code for _ in range(2)] == [502, 409]
    assert gateway.calls == 1


@pytest.mark.parametrize(("on_error", "again"), [("reopen", 409), ("store", 502)])
@pytest.mark.parametrize("answer", ["returns", "aborts"])
def test_a_5xx_of_the_views_own_is_one_of_these(answer, on_error, again):
    app, calls = Flask(__name__), []

    @app.post("/")
    def view():
        calls.append(1)
        return flask_abort(502) if answer == "aborts" else ("no", 502)

    app.wsgi_app = wsgi.IdempotencyMiddleware(app.wsgi_app, **OPTIONS, on_error=on_error)
    client = Client(app)
    assert [post(client).status_code for _ in range(2)] == [502, again]
    assert len(calls) == 1


@pytest.mark.parametrize("decide", [idempotency.release, idempotency.store])
def test_what_the_view_decides_comes_first(decide):
    app, calls = Flask(__name__), []

    @app.post("/")
    def view():
        calls.append(1)
        decide()
        return "no", 502

    app.wsgi_app = wsgi.IdempotencyMiddleware(app.wsgi_app, **OPTIONS)
    client = Client(app)
    assert [post(client).status_code for _ in range(2)] == [502, 502]
    assert len(calls) == (2 if decide is idempotency.release else 1)


@pytest.mark.parametrize(("error", "runs"), DOUBTS)
def test_a_5xx_that_is_raised_for_an_error_says_what_that_error_says(error, runs):
    app, gateway = Flask(__name__), Gateway(error("pay"))

    @app.post("/")
    def view():
        try:
            gateway.call()
        except OSError:
            flask_abort(502)

    app.wsgi_app = wsgi.IdempotencyMiddleware(app.wsgi_app, **OPTIONS)
    client = Client(app)
    assert [post(client).status_code for _ in range(2)] == [502, 409 if runs == 1 else 502]
    assert gateway.calls == runs


def around_fastapi_with_answers(gateway, **options):
    app = answering_fastapi()
    app.post("/")(gateway.awaited)
    app.add_middleware(IdempotencyMiddleware, **OPTIONS | options)
    return client_of(app)


def in_a_route_with_answers(gateway, **options):
    app = answering_fastapi()
    router = APIRouter(route_class=http_fastapi.idempotent_route(**OPTIONS | options))
    router.post("/")(gateway.awaited)
    app.include_router(router)
    return client_of(app)


def behind_a_dependency_with_answers(gateway, **options):
    app = answering_fastapi()
    guard = Depends(http_fastapi.idempotent(**OPTIONS | options))
    app.post("/", dependencies=[guard])(gateway.awaited)
    return client_of(app)


def answering_fastapi():
    app = FastAPI()
    app.add_exception_handler(OSError, Answers.of_starlette)
    return app


ASYNC = [around_fastapi_with_answers, in_a_route_with_answers, behind_a_dependency_with_answers]


@pytest.mark.parametrize("app", ASYNC)
@pytest.mark.parametrize("detach", [True, False])
@pytest.mark.parametrize("status", [502, 429, 409])
@pytest.mark.parametrize(("error", "runs"), DOUBTS)
async def test_an_error_that_an_exception_handler_answers_holds_too(
    app, detach, status, error, runs, monkeypatch
):
    monkeypatch.setattr(Answers, "status", status)
    gateway = Gateway(error("pay"))
    async with app(gateway, detach=detach) as client:
        answers = await twice(client)
    assert [each.status_code for each in answers] == [status, 409 if runs == 1 else status]
    assert gateway.calls == runs


@pytest.mark.filterwarnings("ignore:.*stands inside of the idempotency guard")
@pytest.mark.parametrize("error", [TimeoutError, ConnectionRefusedError])
async def test_a_5xx_that_comes_through_a_middleware_of_functions_is_held(error):
    app, gateway = answering_fastapi(), Gateway(error("pay"))
    app.post("/")(gateway.awaited)

    @app.middleware("http")
    async def around(request, call_next):
        return await call_next(request)

    async with client_of(IdempotencyMiddleware(app, **OPTIONS)) as client:
        answers = await twice(client)
    assert [each.status_code for each in answers] == [502, 409]
    assert gateway.calls == 1


HOLDS_ALL = [
    {"store": "memory://", "on_error": "hold"},
    {"store": lambda: AsyncOnce("memory://", on_error="hold")},
]


@pytest.mark.parametrize("options", HOLDS_ALL)
@pytest.mark.parametrize("error", [TimeoutError, ConnectionRefusedError])
async def test_where_all_errors_hold_those_with_answers_do(options, error, monkeypatch):
    monkeypatch.setattr(Answers, "status", 409)
    app, gateway = answering_fastapi(), Gateway(error("pay"))
    app.post("/")(gateway.awaited)
    async with client_of(IdempotencyMiddleware(app, scope=SHARED, **made(options))) as client:
        await twice(client)
    assert gateway.calls == 1


def made(options):
    return {name: value() if callable(value) else value for name, value in options.items()}


class Order(BaseModel):
    id: int


@pytest.mark.parametrize("options", [*HOLDS_ALL, {"store": "memory://", "hold_on": (Exception,)}])
@pytest.mark.parametrize(("status", "runs"), [(404, 1), (409, 2), (422, 0)])
async def test_where_all_errors_hold_those_that_are_answers_do_not(options, status, runs):
    app, calls = FastAPI(), []

    @app.post("/")
    async def view(order: Order):
        calls.append(1)
        raise HTTPException(status)

    body = {"id": "no number" if status == 422 else 7}
    async with client_of(IdempotencyMiddleware(app, scope=SHARED, **made(options))) as client:
        answers = await twice(client, json=body)
    assert [each.status_code for each in answers] == [status, status]
    assert "unresolved" not in answers[1].text
    assert len(calls) == runs


@pytest.mark.parametrize("detach", [True, False])
async def test_an_error_that_is_handled_around_the_guard_holds_nothing(detach):
    handler = Counter(lambda _: JSONResponse({}, 409))
    guard = guarded(handler, **OPTIONS, detach=detach)

    async def around(scope, receive, send):
        """As a limiter does whose Redis does not answer."""
        try:
            raise TimeoutError
        except TimeoutError:
            await guard(scope, receive, send)

    async with client_of(around) as client:
        await twice(client)
    assert handler.runs == 2


async def test_what_a_guard_of_yours_holds_is_held_here(any_url):
    gateway = Gateway(TimeoutError("pay"))
    async with (
        AsyncOnce(any_url, namespace="http", on_error="hold") as once,
        asking(gateway.asgi, store=once) as client,
    ):
        await twice(client)
        [entry] = [each async for each in once.entries("held")]
        assert (entry.error, gateway.calls) == ("TimeoutError", 1)


async def test_errors_that_are_answered_are_held_where_the_guard_holds_all():
    handler = Counter(lambda _: JSONResponse({}, 502))
    async with asking(handler, store=AsyncOnce("memory://", on_error="hold")) as client:
        await twice(client)
    assert handler.runs == 1


ANSWERS = [
    (Done(Answer(201, [(b"location", b"/payments/7")], b"paid")), 201, b"paid", 1),
    (Done({"id": 7}), 200, b'{"id":7}', 1),
    (Done(), 409, None, 1),
    (Unknown(), 409, None, 1),
    (NotDone(), 500, None, 2),
]


@pytest.mark.parametrize(("said", "status", "body", "runs"), ANSWERS)
async def test_a_lookup_settles_a_held_request(said, status, body, runs):
    gateway, asked, sent = Gateway(TimeoutError("pay")), [], []

    def lookup(entry):
        asked.append((entry.key, entry.child_key("charge")))
        return said

    gateway.before = lambda: sent.append(child_key("charge"))
    async with asking(gateway.asgi, **OPTIONS, keep_keys=True, settle=lookup) as client:
        await client.post("/", headers=KEY)
        settled = await client.post("/", headers=KEY)
    assert settled.status_code == status
    assert body is None or settled.content == body
    assert gateway.calls == runs
    assert asked == [(key_for(SHARED, "k"), sent[0])]


async def test_a_request_whose_server_died_is_settled_too(tmp_path):
    url = f"sqlite:///{tmp_path}/dedup.db"
    key = key_for(SHARED, "k")
    with Once(url, namespace="http", lease="100ms", on_abandoned="hold") as once:
        interrupted = once.claim(key)
        with contextlib.suppress(KeyboardInterrupt), interrupted:
            raise KeyboardInterrupt
    handler = Counter()
    options = {"store": url, "on_error": "hold", "settle": lambda _: Done("found"), "wait": "5s"}
    async with asking(handler, **options) as client:
        assert (await client.post("/", headers=KEY)).json() == "found"
    assert handler.runs == 0


async def test_a_request_is_settled_in_the_background_with_a_whole_answer(tmp_path):
    url = f"sqlite:///{tmp_path}/dedup.db"
    gateway = Gateway(TimeoutError("pay"))
    async with asking(gateway.asgi, **OPTIONS | {"store": url}) as client:
        await client.post("/", headers=KEY)
        with Once(url) as once:
            answer = Answer(201, [(b"location", b"/payments/7")], b"paid")
            assert once.settle(lambda entry: Done(answer), namespace="http").done == 1
        again = await client.post("/", headers=KEY)
    assert (again.status_code, again.headers["location"], again.content) == (201, "/payments/7", b"paid")
    assert gateway.calls == 1
