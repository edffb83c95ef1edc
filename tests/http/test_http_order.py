"""What stands inside of the guard and should stand outside is told when the app starts, or with its first request."""

import asyncio
import signal
import sys
import warnings
from contextlib import contextmanager

import httpx
import pytest
from fastapi import FastAPI
from http_asking import KEY, client_of
from starlette.applications import Starlette
from starlette.authentication import AuthenticationBackend
from starlette.middleware import Middleware
from starlette.middleware.authentication import AuthenticationMiddleware
from starlette.middleware.base import BaseHTTPMiddleware
from starlette.middleware.cors import CORSMiddleware
from starlette.middleware.gzip import GZipMiddleware
from starlette.middleware.trustedhost import TrustedHostMiddleware
from starlette.responses import PlainTextResponse
from starlette.routing import Mount, Route

from dupeproof.http import SHARED, IdempotencyMiddleware
from dupeproof_lab.servers import process
from dupeproof_lab.servers.base import wait_until
from support.places import django_set_up

django_set_up()
from django.core.handlers.wsgi import WSGIHandler  # noqa: E402 - needs the settings
from django.test import override_settings  # noqa: E402

from dupeproof.http.django import IdempotencyMiddleware as ForDjango  # noqa: E402

GUARD = {"store": "memory://", "scope": SHARED}


class SessionMiddleware:
    """By this name; Starlette's own needs another library."""

    def __init__(self, app):
        self.app = app

    async def __call__(self, scope, receive, send):
        await self.app(scope, receive, send)


class OurCors(CORSMiddleware):
    pass


class Checks(BaseHTTPMiddleware):
    async def dispatch(self, request, call_next):
        return await call_next(request)


def a_function(app):
    """A factory is as good as a class for Starlette."""
    return SessionMiddleware(app)


INSIDE = {
    "CORSMiddleware": (CORSMiddleware, {}, "no CORS headers"),
    "OurCors": (OurCors, {}, "no CORS headers"),
    "GZipMiddleware": (GZipMiddleware, {}, "compresses nothing"),
    "AuthenticationMiddleware": (
        AuthenticationMiddleware,
        {"backend": AuthenticationBackend()},
        "cannot know the user",
    ),
    "SessionMiddleware": (SessionMiddleware, {}, "cannot know the session"),
    "Checks": (Checks, {}, "what it checks or adds is missing"),
}
INNOCENT = {"TrustedHostMiddleware": (TrustedHostMiddleware, {}), "a_function": (a_function, {})}


async def answer(request):
    return PlainTextResponse("done")


def fastapi():
    app = FastAPI()
    app.add_api_route("/", lambda: "done", methods=["POST"])
    return app


def starlette():
    return Starlette(routes=[Route("/", answer, methods=["POST"])])


@contextmanager
def told(name, reason):
    with warnings.catch_warnings(record=True) as found:
        warnings.simplefilter("always")
        yield
    assert [str(each.message).split(" stands inside")[0] for each in found] == [name]
    assert reason in str(found[0].message)


def start(app):
    """As a server does that tells of it."""
    messages = iter([{"type": "lifespan.startup"}, {"type": "lifespan.shutdown"}])
    sent = []

    async def receive():
        return next(messages)

    async def send(message):
        sent.append(message["type"])

    asyncio.run(app({"type": "lifespan", "state": {}}, receive, send))
    assert sent == ["lifespan.startup.complete", "lifespan.shutdown.complete"]


@pytest.mark.parametrize("make", [fastapi, starlette])
@pytest.mark.parametrize("name", INSIDE)
def test_what_is_added_before_the_guard_is_told_when_the_app_starts(make, name):
    kind, options, reason = INSIDE[name]
    app = make()
    app.add_middleware(kind, **options)
    app.add_middleware(IdempotencyMiddleware, **GUARD)
    with told(name, reason):
        start(app)


def test_a_function_among_the_middleware_is_told_by_its_name():
    app = fastapi()

    @app.middleware("http")
    async def add_trace_id(request, call_next):
        return await call_next(request)

    app.add_middleware(IdempotencyMiddleware, **GUARD)
    with told("add_trace_id", "what it checks or adds is missing"):
        start(app)


@pytest.mark.parametrize("name", INSIDE)
def test_what_the_guard_is_put_around_by_hand_is_told_too(name):
    kind, options, reason = INSIDE[name]
    with told(name, reason):
        start(IdempotencyMiddleware(Starlette(middleware=[Middleware(kind, **options)]), **GUARD))
    with told(name, reason):
        start(IdempotencyMiddleware(kind(starlette(), **options), **GUARD))


@pytest.mark.parametrize("make", [fastapi, starlette])
def test_nothing_is_told_of_what_stands_outside_or_does_no_harm(make):
    app = make()
    for kind, options in INNOCENT.values():
        app.add_middleware(kind, **options)
    app.add_middleware(IdempotencyMiddleware, **GUARD)
    for kind, options, _ in INSIDE.values():
        app.add_middleware(kind, **options)
    start(app)  # warnings are errors here


async def test_without_a_start_the_first_request_tells_it_once():
    app = fastapi()
    app.add_middleware(CORSMiddleware)
    app.add_middleware(IdempotencyMiddleware, **GUARD)
    async with client_of(app) as client:
        with told("CORSMiddleware", "no CORS headers"):
            assert (await client.post("/", headers=KEY)).status_code == 200
        assert (await client.post("/", headers=KEY)).headers["Idempotent-Replayed"] == "true"


async def test_an_app_that_is_mounted_hears_of_no_start_and_is_looked_at_with_its_first_request():
    inner = fastapi()
    inner.add_middleware(GZipMiddleware)
    inner.add_middleware(IdempotencyMiddleware, **GUARD)
    app = Starlette(routes=[Mount("/inner", inner)])
    async with client_of(app) as client:
        with told("GZipMiddleware", "compresses nothing"):
            await client.post("/inner/", headers=KEY)


async def test_the_guard_of_one_route_has_nothing_inside():
    guard = Middleware(IdempotencyMiddleware, **GUARD)
    app = Starlette(
        routes=[Route("/", answer, methods=["POST"], middleware=[guard])],
        middleware=[Middleware(GZipMiddleware)],
    )
    async with client_of(app) as client:
        assert (await client.post("/", headers=KEY)).status_code == 200


APP = """
from fastapi import FastAPI
from starlette.middleware.cors import CORSMiddleware
from dupeproof.http import SHARED, IdempotencyMiddleware

app = FastAPI()
app.add_middleware(CORSMiddleware)
app.add_middleware(IdempotencyMiddleware, store="memory://", scope=SHARED)
"""


@pytest.mark.parametrize("lifespan", ["on", "off"])
def test_a_server_writes_it_to_its_log(tmp_path, lifespan):
    (tmp_path / "shop.py").write_text(APP)
    port, log = process.free_port(), tmp_path / "log"
    with log.open("wb") as file:
        server = process.spawn(
            [sys.executable, "-m", "uvicorn", "shop:app", "--port", str(port), "--lifespan", lifespan],
            cwd=tmp_path,
            log=file,
            end_signal=signal.SIGKILL,
        )
    try:
        wait_until(lambda: "Uvicorn running" in log.read_text(), what="the server")
        assert ("CORSMiddleware stands inside" in log.read_text()) is (lifespan == "on")
        for _ in range(3):
            httpx.post(f"http://127.0.0.1:{port}/", headers=KEY)
        assert log.read_text().count("CORSMiddleware stands inside") == 1
    finally:
        server.terminate()
        process.forget(server)


GUARD_OF_DJANGO = "dupeproof.http.django.IdempotencyMiddleware"
OF_DJANGO = {
    "django.middleware.gzip.GZipMiddleware": "compresses nothing",
    "django.contrib.sessions.middleware.SessionMiddleware": "cannot know the session",
    "django.contrib.auth.middleware.AuthenticationMiddleware": "cannot know the user",
    "corsheaders.middleware.CorsMiddleware": "no CORS headers",
}


@pytest.mark.parametrize("path", OF_DJANGO)
def test_the_settings_of_django_are_looked_at(path):
    with (
        override_settings(MIDDLEWARE=[GUARD_OF_DJANGO, path], DUPEPROOF_HTTP=GUARD),
        told(path.rpartition(".")[2], OF_DJANGO[path]),
    ):
        ForDjango(lambda request: None)


def test_django_tells_it_when_it_starts():
    path = "django.middleware.gzip.GZipMiddleware"
    with (
        override_settings(MIDDLEWARE=[GUARD_OF_DJANGO, path], DUPEPROOF_HTTP=GUARD),
        told("GZipMiddleware", OF_DJANGO[path]),
    ):
        WSGIHandler()


def test_nothing_is_told_of_settings_in_the_right_order():
    innocent = ["django.middleware.common.CommonMiddleware", "django.middleware.csrf.CsrfViewMiddleware"]
    with override_settings(MIDDLEWARE=[*OF_DJANGO, GUARD_OF_DJANGO, *innocent], DUPEPROOF_HTTP=GUARD):
        ForDjango(lambda request: None)
