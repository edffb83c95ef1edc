"""FastAPI: routes, dependencies that end late, and the OpenAPI document."""

import warnings
from typing import Annotated

import pytest
from fastapi import APIRouter, Depends, FastAPI, Header
from http_asking import KEY, client_of
from starlette.middleware.trustedhost import TrustedHostMiddleware

from dupeproof.http import SHARED, IdempotencyMiddleware
from dupeproof.http.fastapi import document, idempotent_route

GUARD = {"store": "memory://", "scope": SHARED}


def session():
    yield "session"


class Sessions:
    async def __call__(self):
        yield "session"


def plain():
    return "plain"


def using(dependency, do=lambda: None):
    def endpoint(_=dependency):
        do()
        return {}

    return endpoint


def included(router):
    app = FastAPI()
    app.include_router(router, prefix="/v1")
    return app


@pytest.mark.parametrize("dependency", [session, Sessions()])
def test_a_dependency_that_ends_after_the_response_is_warned_of(dependency):
    router = APIRouter(route_class=idempotent_route(**GUARD))
    with pytest.warns(UserWarning, match=r"/orders: the dependency .* scope='function'"):
        router.add_api_route("/orders", using(Depends(dependency)), methods=["POST"])


@pytest.mark.parametrize("dependency", [Depends(session, scope="function"), Depends(plain)])
def test_others_are_not(dependency):
    router = APIRouter(route_class=idempotent_route(**GUARD))
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        router.add_api_route("/orders", using(dependency), methods=["POST"])
        router.add_api_route("/orders", using(Depends(session)), methods=["GET"])


def added(app):
    app.add_middleware(IdempotencyMiddleware, **GUARD)
    return app


@pytest.mark.parametrize(
    "guarded",
    [
        added,
        lambda app: IdempotencyMiddleware(app, **GUARD),
        lambda app: IdempotencyMiddleware(TrustedHostMiddleware(app), **GUARD),
    ],
    ids=["added", "around it", "around others"],
)
async def test_the_middleware_warns_when_the_app_starts(guarded):
    router = APIRouter()
    router.add_api_route("/orders", using(Depends(session)), methods=["POST"])
    app = guarded(included(router))
    messages = iter([{"type": "lifespan.startup"}, {"type": "lifespan.shutdown"}])
    sent = []

    async def receive():
        return next(messages)

    async def send(message):
        sent.append(message["type"])

    with pytest.warns(UserWarning, match="the dependency session ends after the response"):
        await app({"type": "lifespan", "state": {}}, receive, send)
    assert sent == ["lifespan.startup.complete", "lifespan.shutdown.complete"]


async def test_routes_of_a_router_are_guarded_and_others_are_not():
    runs = []
    router = APIRouter(route_class=idempotent_route(**GUARD))
    router.add_api_route("/orders", lambda: runs.append("guarded"), methods=["POST"])
    app = included(router)
    app.add_api_route("/other", lambda: runs.append("other"), methods=["POST"])
    async with client_of(app) as client:
        for path in ("/v1/orders", "/v1/orders", "/other", "/other"):
            await client.post(path, headers=KEY)
    assert runs == ["guarded", "other", "other"]


async def test_a_failing_teardown_does_not_undo_the_record():
    runs = []

    def failing():
        yield
        raise RuntimeError("after the response")

    router = APIRouter(route_class=idempotent_route(**GUARD))
    with pytest.warns(UserWarning, match="failing"):
        router.add_api_route("/orders", using(Depends(failing), lambda: runs.append(1)), methods=["POST"])
    async with client_of(included(router)) as client:
        for _ in range(2):
            response = await client.post("/v1/orders", headers=KEY)
    assert response.headers["idempotent-replayed"] == "true"
    assert runs == [1]


@pytest.mark.parametrize("alias", [None, "Idempotency-Key"])
def test_a_header_that_a_route_has_is_told_once(alias):
    app = FastAPI()

    @app.post("/orders")
    def order(idempotency_key: Annotated[str, Header(alias=alias)]): ...

    document(app, methods="post")
    operation = app.openapi()["paths"]["/orders"]["post"]
    assert [parameter["name"].lower() for parameter in operation["parameters"]] == ["idempotency-key"]
    assert "application/problem+json" in operation["responses"]["409"]["content"]
    assert "Idempotent-Replayed" in operation["responses"]["200"]["headers"]


def test_the_document_tells_of_the_guard():
    app = FastAPI()
    app.add_api_route("/orders", using(Depends(plain)), methods=["POST"])
    app.add_api_route("/orders", using(Depends(plain)), methods=["GET"])
    app.add_api_route("/other", using(Depends(plain)), methods=["POST"])
    document(app, required=True, when=lambda path: path == "/orders")
    for _ in range(2):  # FastAPI keeps the schema, and asks again
        schema = app.openapi()
    order = schema["paths"]["/orders"]["post"]
    [parameter] = order["parameters"]
    assert (parameter["name"], parameter["in"], parameter["required"]) == ("Idempotency-Key", "header", True)
    assert {"200", "400", "409", "413", "422", "503"} <= order["responses"].keys()
    assert "application/problem+json" in order["responses"]["409"]["content"]
    assert "Idempotent-Replayed" in order["responses"]["200"]["headers"]
    assert "parameters" not in schema["paths"]["/orders"]["get"]
    assert "parameters" not in schema["paths"]["/other"]["post"]
    assert "IdempotencyProblem" in schema["components"]["schemas"]
