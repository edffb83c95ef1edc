"""Requests whose effect may have happened: errors that hold their keys in every framework, and lookups that settle them."""

import contextlib

import django.test
import pytest
from django.test import override_settings
from django.test.signals import setting_changed  # noqa: F401 - without it the URLs would not change
from django.urls import path
from fastapi import Depends, FastAPI
from flask import Flask
from http_asking import KEY, Counter, asking, client_of, twice
from starlette.responses import JSONResponse
from werkzeug.test import Client

from support.places import django_set_up

django_set_up()

from ninja import NinjaAPI  # noqa: E402 - reads the settings
from rest_framework.decorators import api_view, authentication_classes  # noqa: E402

from dupeproof import AsyncOnce, Done, NotDone, Once, Unknown, child_key  # noqa: E402
from dupeproof.http import SHARED, Answer, IdempotencyMiddleware, key_for, wsgi  # noqa: E402
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
