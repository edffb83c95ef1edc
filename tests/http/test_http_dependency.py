"""The guard as a dependency of FastAPI: behind those that know the caller."""

import asyncio
from typing import Annotated

import pytest
from fastapi import (
    APIRouter,
    Body,
    Depends,
    FastAPI,
    File,
    Form,
    Header,
    HTTPException,
    UploadFile,
    WebSocket,
)
from fastapi.middleware.gzip import GZipMiddleware
from fastapi.responses import StreamingResponse
from http_asking import client_of
from pydantic import BaseModel
from starlette.middleware.base import BaseHTTPMiddleware

from dupeproof import AsyncOnce
from dupeproof.errors import ConfigError
from dupeproof.http import SHARED, idempotency, key_for
from dupeproof.http.fastapi import drain, idempotent, idempotent_route

USERS = {"secret-1": "ada", "secret-2": "bob"}


class Order(BaseModel):
    item: str
    amount: int = 1


class Shop:
    """An app whose caller is known to a dependency, and what ran in it."""

    def __init__(self, **options):
        self.ran = []
        self.asked = []
        self.users = dict(USERS)
        self.app = FastAPI()

        def user(authorization: Annotated[str, Header()] = ""):
            self.asked.append(authorization)
            if authorization not in self.users:
                raise HTTPException(401, "who are you?")
            return self.users[authorization]

        self.user = user
        self.guard = Depends(idempotent(**{"store": "memory://", "scope": user, **options}))
        self.client = client_of(self.app)

    async def order(self, *, key="k", user="secret-1", url="/orders", **content):
        headers = {"Authorization": user, **({} if key is None else {"Idempotency-Key": key})}
        return await self.client.post(url, headers=headers, **content or {"json": {"item": "tea"}})


def shop_with_orders(**options):
    shop = Shop(**options)

    @shop.app.post("/orders", status_code=201, dependencies=[shop.guard])
    def order(new: Order):
        shop.ran.append(new.item)
        return {
            "number": len(shop.ran),
            "attempt": idempotency.attempt() if idempotency.is_guarded() else None,
        }

    return shop


async def test_a_retry_gets_the_first_response_and_runs_nothing():
    shop = shop_with_orders()
    first, again = await shop.order(), await shop.order()
    assert (first.status_code, first.json()) == (201, {"number": 1, "attempt": 1})
    assert (again.status_code, again.content) == (201, first.content)
    assert again.headers["idempotent-replayed"] == "true"
    assert "idempotent-replayed" not in first.headers
    assert shop.ran == ["tea"]


async def test_who_calls_is_asked_before_every_replay():
    shop = shop_with_orders()
    assert (await shop.order()).status_code == 201
    del shop.users["secret-1"]
    revoked = await shop.order()
    assert (revoked.status_code, revoked.json()) == (401, {"detail": "who are you?"})
    assert (await shop.order(user="secret-2")).json()["number"] == 2  # another's key


async def test_dependencies_run_once_for_each_request_but_the_very_first():
    shop = shop_with_orders()
    for number in range(3):
        await shop.order(key=f"k-{number}")
    assert len(shop.asked) == 4


async def test_the_same_key_with_another_request_is_refused():
    shop = shop_with_orders()
    await shop.order()
    other = await shop.order(json={"item": "gold"})
    assert (other.status_code, other.json()["code"]) == (422, "key-reused")
    assert shop.ran == ["tea"]


async def test_a_corrected_body_may_use_its_key():
    shop = shop_with_orders()
    assert (await shop.order(json={"amount": 1})).status_code == 422
    assert (await shop.order()).status_code == 201
    assert (await shop.order(json={"amount": 2})).status_code == 422
    assert (await shop.order()).headers["idempotent-replayed"] == "true"


async def test_without_a_key_nothing_is_guarded_unless_it_is_required():
    shop = shop_with_orders()
    assert [(await shop.order(key=None)).json()["number"] for _ in range(2)] == [1, 2]
    strict = shop_with_orders(required=True)
    assert (await strict.order(key=None)).json()["code"] == "key-missing"
    assert (await strict.order(key="two keys, one header")).json()["code"] == "key-malformed"
    assert strict.ran == []


@pytest.mark.parametrize("first", [True, False])
async def test_errors_are_answers_or_failures_as_elsewhere(first):
    shop = Shop()

    @shop.app.post("/{status}", dependencies=[shop.guard])
    async def fail(status: int):
        shop.ran.append(status)
        if status == 500:
            raise RuntimeError("broken")
        raise HTTPException(status, "no")

    if not first:
        await shop.order(url="/404", key="another", content=b"")
    for status, runs in ((402, 1), (403, 2), (500, 2)):
        shop.ran.clear()
        answers = [await shop.order(url=f"/{status}", key=f"k-{status}", content=b"") for _ in range(2)]
        assert [answer.status_code for answer in answers] == [status, status]
        assert shop.ran == [status] * runs


@pytest.mark.parametrize("where", ["router", "include", "app", "mounted"])
async def test_it_may_stand_wherever_dependencies_do(where):
    shop = Shop()
    router = APIRouter(dependencies=[shop.guard] if where == "router" else [])

    @router.post("/orders")
    async def order(new: Order):
        shop.ran.append(new.item)
        return len(shop.ran)

    if where in ("app", "mounted"):
        inner = FastAPI(dependencies=[shop.guard])
        inner.include_router(router)
        shop.client = client_of(inner)
        if where == "mounted":
            shop.app.mount("/inner", inner)
            shop.client = client_of(shop.app)
            shop.client.base_url = "http://shop/inner"
    else:
        shop.app.include_router(router, dependencies=[shop.guard] if where == "include" else [])
    first, again = await shop.order(url="orders"), await shop.order(url="orders")
    assert (first.json(), again.json()) == (1, 1)
    assert again.headers["idempotent-replayed"] == "true"


@pytest.mark.parametrize("second", ["same", "another"])
async def test_forms_and_uploads_arrive_whole_and_are_compared(second):
    shop = Shop()

    @shop.app.post("/form", dependencies=[shop.guard])
    def form(note: Annotated[str, Form()]):
        return note

    @shop.app.post("/upload", dependencies=[shop.guard])
    async def upload(note: Annotated[str, Form()], file: Annotated[UploadFile, File()]):
        return [note, file.filename, file.content_type, (await file.read()).decode()]

    for url, sent, other, value in (
        ("/form", {"data": {"note": "ä & b"}}, {"data": {"note": "c"}}, "ä & b"),
        (
            "/upload",
            {"data": {"note": 'q"'}, "files": {"file": ("a b.txt", b"one\r\n--two", "text/csv")}},
            {"data": {"note": 'q"'}, "files": {"file": ("a b.txt", b"two", "text/csv")}},
            ['q"', "a b.txt", "text/csv", "one\r\n--two"],
        ),
    ):
        assert (await shop.order(url=url, key=url, **sent)).json() == value
        again = await shop.order(url=url, key=url, **(sent if second == "same" else other))
        assert again.json() == value if second == "same" else again.json()["code"] == "key-reused"


async def test_streams_are_done_and_not_kept():
    shop = Shop()

    @shop.app.post("/events", dependencies=[shop.guard])
    async def events():
        async def each():
            for number in range(3):
                yield f"data: {number}\n\n"

        shop.ran.append(1)
        return StreamingResponse(each(), media_type="text/event-stream")

    assert (await shop.order(url="/events", content=b"")).text.count("data") == 3
    assert (await shop.order(url="/events", content=b"")).json()["code"] == "already-completed"
    assert shop.ran == [1]


async def test_what_compresses_does_so_for_each_try():
    shop = shop_with_orders()
    shop.app.add_middleware(GZipMiddleware, minimum_size=1)
    first = await shop.order()
    shop.client.headers["accept-encoding"] = "identity"
    again = await shop.order()
    assert "content-encoding" in first.headers
    assert "content-encoding" not in again.headers
    assert first.json() == again.json()


@pytest.mark.parametrize(
    ("scope", "owner"),
    [(SHARED, SHARED), (lambda request: request.headers["authorization"], "secret-1")],
)
async def test_a_scope_may_be_written_as_for_the_middleware(scope, owner):
    async with AsyncOnce("memory://dependency-scopes") as once:
        shop = shop_with_orders(store="memory://dependency-scopes", namespace="default", scope=scope)
        await shop.order()
        assert (await once.get(key_for(owner, "k"))).state == "done"
        await once.forget(key_for(owner, "k"))


async def test_a_scope_that_knows_nobody_leaves_it_to_the_app(caplog):
    shop = shop_with_orders(scope=lambda request: None)
    assert [(await shop.order()).json() for _ in range(2)] == [
        {"number": 1, "attempt": None},
        {"number": 2, "attempt": None},
    ]
    assert caplog.text.count("without a guard") == 1


async def test_another_guard_around_it_is_enough():
    from dupeproof.http import IdempotencyMiddleware

    shop = shop_with_orders(scope=SHARED)
    shop.app.add_middleware(IdempotencyMiddleware, store="memory://", scope=SHARED)
    assert [(await shop.order()).json()["number"] for _ in range(2)] == [1, 1]


@pytest.mark.parametrize("scope", [None, "user", 3])
async def test_a_scope_that_is_none_is_refused_when_the_guard_is_made(scope):
    with pytest.raises(ConfigError, match="dependency"):
        idempotent(store="memory://", scope=scope)
    with pytest.raises(ConfigError, match="no option"):
        idempotent(store="memory://", scope=SHARED, windows="24h")


async def test_the_document_shows_no_trace_of_it():
    shop = shop_with_orders(scope=SHARED)
    [operation] = shop.app.openapi()["paths"]["/orders"].values()
    assert "parameters" not in operation


async def test_a_client_that_leaves_finds_the_response_when_it_is_back():
    shop = Shop(scope=SHARED)
    started, proceed = asyncio.Event(), asyncio.Event()

    @shop.app.post("/", dependencies=[shop.guard])
    async def slow(item: Annotated[str, Body()]):
        shop.ran.append(item)
        started.set()
        await proceed.wait()
        return item

    scope = {
        "type": "http", "method": "POST", "path": "/", "query_string": b"", "root_path": "", "http_version": "1.1",
        "headers": [(b"idempotency-key", b"k"), (b"content-type", b"application/json")],
    }  # fmt: skip

    async def ask(*more):
        waiting, sent = [{"type": "http.request", "body": b'"tea"'}, *more], []

        async def receive():
            if not waiting:
                await asyncio.Event().wait()
            return waiting.pop(0)

        async def send(message):
            sent.append(message)

        await shop.app(dict(scope), receive, send)
        return sent

    leaving = asyncio.create_task(ask({"type": "http.disconnect"}))
    await started.wait()
    leaving.cancel()
    proceed.set()
    with pytest.raises(asyncio.CancelledError):
        await leaving
    start, body = await ask()
    assert (b"idempotent-replayed", b"true") in start["headers"]
    assert body["body"] == b'"tea"'
    assert shop.ran == ["tea"]


@pytest.mark.parametrize("kind", ["sync", "async"])
async def test_dependencies_with_yield_are_ended_before_a_replay_as_before_an_http_exception(kind):
    shop = Shop()
    ended = []

    def session():
        try:
            yield
        except HTTPException:
            ended.append("rolled back")
            raise

    async def session_async():
        try:
            yield
        except HTTPException:
            ended.append("rolled back")
            raise

    @shop.app.post(
        "/orders", dependencies=[Depends(session if kind == "sync" else session_async), shop.guard]
    )
    def order():
        shop.ran.append("tea")

    assert (await shop.order()).status_code == 200
    ended.clear()
    assert (await shop.order()).headers["idempotent-replayed"] == "true"
    assert (shop.ran, ended) == (["tea"], ["rolled back"])


async def test_a_dependency_that_makes_something_else_of_exceptions_does_not_change_a_replay():
    shop = Shop()

    def session():
        try:
            yield
        except Exception as exc:
            raise HTTPException(500, "the database is to blame") from exc

    @shop.app.post("/warm", dependencies=[shop.guard])
    def warm(): ...

    @shop.app.post("/orders", dependencies=[Depends(session), shop.guard])
    def order():
        shop.ran.append("tea")
        return len(shop.ran)

    await shop.order(url="/warm", key="another")
    first, again = await shop.order(), await shop.order()
    assert (first.status_code, again.status_code, again.content, shop.ran) == (
        200,
        200,
        first.content,
        ["tea"],
    )
    assert again.headers["idempotent-replayed"] == "true"


async def test_an_app_inside_another_replays_through_its_own_middleware_from_its_first_request_on():
    guard = Depends(idempotent(store="memory://", scope=SHARED))
    ran = []

    def order():
        ran.append("tea")
        return len(ran)

    def process():
        outer, inner = FastAPI(), FastAPI()
        inner.add_middleware(BaseHTTPMiddleware, dispatch=lambda request, call_next: call_next(request))
        inner.post("/orders", dependencies=[guard])(order)
        outer.post("/warm", dependencies=[guard])(lambda: None)
        outer.mount("/inner", inner)
        return client_of(outer)

    for client in (process(), process()):
        await client.post("/warm", headers={"Idempotency-Key": "another"})
        assert (await client.post("/inner/orders", headers={"Idempotency-Key": "k"})).json() == 1
    assert ran == ["tea"]


async def test_a_web_socket_may_stand_among_guarded_routes():
    router = APIRouter(
        dependencies=[Depends(idempotent(store="memory://", scope=lambda request: request.headers["user"]))]
    )

    @router.websocket("/news")
    async def news(socket: WebSocket):
        await socket.accept()
        await socket.send_text("tea")
        await socket.close()

    app = FastAPI()
    app.include_router(router)
    sent = []

    async def receive():
        return {"type": "websocket.connect"}

    async def send(message):
        sent.append(message)

    headers = [(b"user", b"ada"), (b"idempotency-key", b"k")]
    scope = {
        "type": "websocket",
        "path": "/news",
        "headers": headers,
        "query_string": b"",
        "subprotocols": [],
    }
    await app(scope, receive, send)
    assert [message.get("text") for message in sent] == [None, "tea", None]


@pytest.mark.parametrize("form", ["dependency", "route"])
async def test_an_app_that_is_shut_down_waits_for_handlers_whose_clients_have_gone(form):
    began, goes_on = asyncio.Event(), asyncio.Event()
    async with AsyncOnce("memory://") as once:
        if form == "dependency":
            router = APIRouter(dependencies=[Depends(idempotent(store=once, scope=SHARED))])
        else:
            router = APIRouter(route_class=idempotent_route(store=once, scope=SHARED))

        @router.post("/orders")
        async def order():
            began.set()
            await goes_on.wait()

        app = FastAPI()
        app.include_router(router)
        asked = asyncio.ensure_future(client_of(app).post("/orders", headers={"Idempotency-Key": "k"}))
        await began.wait()
        asked.cancel()
        await asyncio.wait([asked])
        ending = asyncio.ensure_future(drain())
        await asyncio.sleep(0.05)
        assert not ending.done()
        goes_on.set()
        await ending
        assert (await once.get(key_for(SHARED, "k"))).state == "done"
