"""What a server and an app may do to each other, with the middleware in between."""

import asyncio
import contextlib
import gzip

import httpx
import pytest
from http_asking import KEY, Counter, asking, client_of, guarded
from http_servers import on
from starlette.applications import Starlette
from starlette.middleware import Middleware
from starlette.requests import Request
from starlette.responses import JSONResponse, PlainTextResponse, Response, StreamingResponse
from websockets.sync.client import connect

from dupeproof import AsyncOnce, ConfigError
from dupeproof.http import SHARED, IdempotencyMiddleware, key_for
from dupeproof.keys import new_id

SCOPE = {
    "type": "http",
    "method": "POST",
    "path": "/",
    "raw_path": b"/",
    "query_string": b"",
    "root_path": "",
    "scheme": "http",
    "http_version": "1.1",
    "headers": [(b"idempotency-key", b"k")],
}


class Line:
    """A server, as an app sees one: what it receives, and what it has been sent."""

    def __init__(self, *messages):
        self.waiting = list(messages)
        self.sent = []
        self.asked = 0

    async def receive(self):
        self.asked += 1
        if not self.waiting:
            await asyncio.Event().wait()
        return self.waiting.pop(0)

    async def send(self, message):
        self.sent.append(message)

    @property
    def status(self):
        return self.sent[0]["status"]


def body(data=b"", *, more=False):
    return {"type": "http.request", "body": data, "more_body": more}


def protected(app, **options):
    return IdempotencyMiddleware(app, **{"store": "memory://", "scope": SHARED, **options})


async def answer(send, data=b"done"):
    await send(
        {"type": "http.response.start", "status": 200, "headers": [(b"content-length", b"%d" % len(data))]}
    )
    await send({"type": "http.response.body", "body": data})


@pytest.mark.parametrize(
    "scope",
    [
        {**SCOPE, "method": "GET"},
        {**SCOPE, "method": "HEAD"},
        {**SCOPE, "method": "OPTIONS"},
        {**SCOPE, "headers": []},
        {**SCOPE, "type": "websocket"},
    ],
)
async def test_what_is_not_guarded_is_handed_on_unread(scope):
    line, seen = Line(body()), []

    async def app(*arguments):
        seen.append(arguments)

    await protected(app)(scope, line.receive, line.send)
    assert seen == [(scope, line.receive, line.send)]
    assert line.asked == 0


@pytest.mark.parametrize(
    ("headers", "code"),
    [([(b"idempotency-key", b"a,b")], 400), ([(b"idempotency-key", b"k"), (b"content-length", b"99")], 413)],
)
async def test_what_is_refused_is_not_read(headers, code):
    line = Line(body(b"x" * 99))
    await protected(None, request_limit=9)({**SCOPE, "headers": headers}, line.receive, line.send)
    assert line.status == code
    assert line.asked == 0


async def test_a_body_that_grows_too_large_is_refused():
    line = Line(*[body(b"12345", more=True)] * 3)
    await protected(None, request_limit=9)(dict(SCOPE), line.receive, line.send)
    assert line.status == 413


@pytest.mark.parametrize("sizes", [[], [0], [1, 0, 2], [700_000, 700_000, 700_000]])
async def test_a_body_arrives_whole(sizes):
    pieces = [bytes([n]) * size for n, size in enumerate(sizes)]
    line = Line(*[body(piece, more=True) for piece in pieces], body(b"end"), {"type": "http.disconnect"})
    received = []

    async def app(scope, receive, send):
        received.append(await Request(scope, receive).body())
        await answer(send)
        assert (await receive())["type"] == "http.disconnect"

    await protected(app)(dict(SCOPE), line.receive, line.send)
    assert received == [b"".join(pieces) + b"end"]
    assert line.status == 200


async def test_a_client_that_leaves_before_its_request_is_whole_runs_nothing():
    line = Line(body(b"half", more=True), {"type": "http.disconnect"})
    await protected(None)(dict(SCOPE), line.receive, line.send)
    assert line.sent == []


async def test_extensions_that_pass_us_by_are_not_offered():
    seen = []

    async def app(scope, receive, send):
        seen.append(set(scope["extensions"]))
        await answer(send)

    extensions = {"http.response.pathsend": {}, "http.response.zerocopysend": {}, "http.response.debug": {}}
    line = Line(body())
    await protected(app)({**SCOPE, "extensions": extensions}, line.receive, line.send)
    assert seen == [{"http.response.debug"}]


async def test_a_response_in_pieces_of_known_length_is_kept():
    async def app(scope, receive, send):
        await send({"type": "http.response.start", "status": 200, "headers": [(b"Content-Length", b"4")]})
        for piece in (b"do", b"ne"):
            await send({"type": "http.response.body", "body": piece, "more_body": True})
        await send({"type": "http.response.body"})

    middleware = protected(app)
    for _ in range(2):
        line = Line(body())
        await middleware(dict(SCOPE), line.receive, line.send)
    assert line.sent[1]["body"] == b"done"
    assert (b"idempotent-replayed", b"true") in line.sent[0]["headers"]


async def test_a_server_may_use_its_scope_again():
    ran = []

    async def app(scope, receive, send):
        ran.append(1)
        await answer(send)

    middleware, scope = protected(app), dict(SCOPE)
    for _ in range(2):
        line = Line(body())
        await middleware(scope, line.receive, line.send)
    assert (b"idempotent-replayed", b"true") in line.sent[0]["headers"]
    assert len(ran) == 1


async def test_the_record_is_there_before_the_first_byte():
    async with AsyncOnce("memory://") as once:
        states = []

        class Watching(Line):
            async def send(self, message):
                states.append((await once.get(key_for(SHARED, "k"))).state)

        async def app(scope, receive, send):
            await answer(send)

        async def streams(scope, receive, send):
            headers = [(b"content-type", b"text/event-stream")]
            await send({"type": "http.response.start", "status": 200, "headers": headers})
            await send({"type": "http.response.body", "body": b"1", "more_body": True})

        for each in (app, streams):
            await once.forget(key_for(SHARED, "k"))
            line = Watching(body())
            await protected(each, store=once)(dict(SCOPE), line.receive, line.send)
    assert set(states) == {"done"}


async def test_a_stream_that_is_not_stored_is_given_back_when_it_is_over():
    async with AsyncOnce("memory://") as once:
        states = []

        async def app(scope, receive, send):
            await send({"type": "http.response.start", "status": 429, "headers": []})
            for more in (True, False):
                await send({"type": "http.response.body", "body": b"no", "more_body": more})
                states.append(await once.get(key_for(SHARED, "k")))

        line = Line(body())
        await protected(app, store=once)(dict(SCOPE), line.receive, line.send)
    assert states[0].state == "running"
    assert states[1] is None or states[1].state != "running"


@pytest.mark.parametrize("how", ["cancelled", "left without an answer"])
async def test_who_is_interrupted_does_not_give_the_key_back(how):
    async with AsyncOnce("memory://") as once:
        started = asyncio.Event()

        async def app(scope, receive, send):
            started.set()
            if how == "cancelled":
                await asyncio.Event().wait()

        line = Line(body())
        middleware = protected(app, store=once, detach=False)
        task = asyncio.create_task(middleware(dict(SCOPE), line.receive, line.send))
        await started.wait()
        if how == "cancelled":
            task.cancel()
        with contextlib.suppress(asyncio.CancelledError):
            await task
        assert (await once.get(key_for(SHARED, "k"))).state == "running"


@pytest.mark.parametrize("client", ["gone", "there"])
async def test_a_handler_whose_request_is_cancelled_comes_to_its_end(client):
    """And who cancelled it waits only if nobody is there who could be answered in another way."""
    async with AsyncOnce("memory://") as once:
        started, proceed = asyncio.Event(), asyncio.Event()

        async def app(scope, receive, send):
            await receive()
            started.set()
            leaving = asyncio.create_task(receive())
            await proceed.wait()
            assert not leaving.done()  # it is not told that the client has gone
            leaving.cancel()
            await answer(send)

        line = Line(body(), *[{"type": "http.disconnect"}] * (client == "gone"))
        middleware = protected(app, store=once)
        task = asyncio.create_task(middleware(dict(SCOPE), line.receive, line.send))
        await started.wait()
        for _ in range(3):
            task.cancel()
            await asyncio.wait([task], timeout=0.05)
        assert task.done() is (client == "there")
        proceed.set()
        with pytest.raises(asyncio.CancelledError):
            await task
        while (await once.get(key_for(SHARED, "k"))).state == "running":  # noqa: ASYNC110 - in the store
            await asyncio.sleep(0)
        again = Line(body())
        await middleware(dict(SCOPE), again.receive, again.send)
        assert again.sent[1]["body"] == b"done"


async def test_a_handler_that_begins_to_stream_when_the_client_has_gone_is_told_so():
    """Some servers say it once, and we have heard it."""
    started, proceed, told = asyncio.Event(), asyncio.Event(), []

    async def app(scope, receive, send):
        await receive()
        started.set()
        await proceed.wait()
        headers = [(b"content-type", b"text/event-stream")]
        await send({"type": "http.response.start", "status": 200, "headers": headers})
        told.append((await receive())["type"])

    line = Line(body(), {"type": "http.disconnect"})
    task = asyncio.create_task(protected(app)(dict(SCOPE), line.receive, line.send))
    await started.wait()
    task.cancel()
    await asyncio.sleep(0.05)
    proceed.set()
    await asyncio.wait([task], timeout=5)
    assert told == ["http.disconnect"]


async def test_a_request_that_is_cancelled_twice_leaves_nobody_waiting_for_its_client():
    started, proceed = asyncio.Event(), asyncio.Event()

    async def app(scope, receive, send):
        started.set()
        await proceed.wait()
        await answer(send)

    line = Line(body())
    task = asyncio.create_task(protected(app)(dict(SCOPE), line.receive, line.send))
    await started.wait()
    task.cancel()
    await asyncio.sleep(0)
    task.cancel()
    proceed.set()
    await asyncio.wait([task])
    await asyncio.sleep(0.05)
    assert asyncio.all_tasks() == {asyncio.current_task()}


async def test_who_cancels_a_request_does_not_wait_without_end_for_its_handler(caplog):
    """A server that shuts down may wait for its requests before it says so."""
    started, ended = asyncio.Event(), asyncio.Event()

    async def app(scope, receive, send):
        started.set()
        try:
            await asyncio.Event().wait()
        finally:
            ended.set()

    line = Line(body(), {"type": "http.disconnect"})
    middleware = protected(app, drain="50ms")
    task = asyncio.create_task(middleware(dict(SCOPE), line.receive, line.send))
    await started.wait()
    task.cancel()
    await asyncio.wait([task], timeout=5)
    assert task.done()
    assert not ended.is_set()  # it goes on for as long as the loop does
    for each in asyncio.all_tasks() - {asyncio.current_task()}:  # as one that is closed does
        each.cancel()
    await ended.wait()
    while "A handler was cut off" not in caplog.text:  # noqa: ASYNC110 - in the log
        await asyncio.sleep(0)


async def test_a_store_that_is_down_before_is_told():
    handler = Counter()
    async with asking(handler, store="redis://127.0.0.1:1?timeout=200ms") as client:
        response = await client.post("/", headers=KEY)
    assert (response.status_code, response.json()["code"]) == (503, "store-unavailable")
    assert response.headers["retry-after"] == "1"
    assert handler.runs == 0


async def test_a_store_that_is_down_may_be_done_without():
    handler = Counter()
    url = "redis://127.0.0.1:1?timeout=200ms"
    async with asking(handler, store=url, on_store_down="run") as client:
        response = await client.post("/", headers=KEY)
    assert response.status_code == 200
    assert response.headers["idempotency-stored"] == "false"
    assert handler.runs == 1


@pytest.mark.parametrize("on_store_down", ["raise", "run"])
async def test_a_store_that_goes_down_meanwhile_does_not_cost_the_response(own_redis, on_store_down):
    redis = own_redis()

    def die(request):
        redis.kill()
        return JSONResponse({"ok": True}, 201)

    handler = Counter(die)
    url = f"{redis.url}?timeout=300ms"
    async with asking(handler, store=url, lease="2s", on_store_down=on_store_down) as client:
        response = await client.post("/", headers=KEY)
    assert response.status_code == 201
    assert response.headers["idempotency-stored"] == "false"
    assert handler.runs == 1


async def test_the_app_may_be_started_and_stopped_twice(tmp_path):
    handler = Counter()
    app = guarded(handler, store=f"sqlite:///{tmp_path}/dedup.db")
    for _ in range(2):
        line = Line({"type": "lifespan.startup"}, {"type": "lifespan.shutdown"})
        await app({"type": "lifespan", "app": None, "state": {}}, line.receive, line.send)
        assert [message["type"] for message in line.sent] == [
            "lifespan.startup.complete",
            "lifespan.shutdown.complete",
        ]
        async with client_of(app) as client:
            assert (await client.post("/", headers=KEY)).status_code == 200
    assert handler.runs == 1


async def test_headers_that_are_not_stored():
    def answer(request):
        response = PlainTextResponse("ok")
        for name, value in [
            ("Set-Cookie", "a=1"), ("Set-Cookie", "b=2"), ("WWW-Authenticate", "Basic"), ("Connection", "close"),
            ("Authorization", "Basic"), ("Sentry-Trace", "1"), ("X-CSRFToken", "1"),
            ("Access-Control-Allow-Origin", "*"), ("X-RateLimit-Remaining", "3"), ("RateLimit", "3"), ("traceparent", "1"),
            ("X-Request-ID", "1"), ("Date", "now"), ("Link", "<a>"), ("Link", "<b>"), ("ETag", '"1"'),
        ]:  # fmt: skip
            response.headers.append(name, value)
        return response

    async with asking(Counter(answer)) as client:
        first = await client.post("/", headers=KEY)
        again = await client.post("/", headers=KEY)
    assert len(first.headers.get_list("set-cookie")) == 2
    assert again.headers.multi_items() == [
        ("content-length", "2"),
        ("content-type", "text/plain; charset=utf-8"),
        ("link", "<a>"),
        ("link", "<b>"),
        ("etag", '"1"'),
        ("idempotent-replayed", "true"),
    ]


async def test_what_connection_names_is_not_stored():
    def answer(request):
        headers = {"Connection": "close, X-Hop", "X-Hop": "1", "X-Kept": "1"}
        return PlainTextResponse("ok", headers=headers)

    async with asking(Counter(answer)) as client:
        first, again = [await client.post("/", headers=KEY) for _ in range(2)]
    assert first.headers["x-hop"] == "1"
    assert "x-hop" not in again.headers
    assert again.headers["x-kept"] == "1"


async def test_a_stream_that_breaks_off_is_done_all_the_same():
    async def broken():
        yield b"half"
        raise RuntimeError("broken")

    handler = Counter(lambda request: StreamingResponse(broken(), media_type="text/event-stream"))
    async with asking(handler) as client:
        await client.post("/", headers=KEY)
        again = await client.post("/", headers=KEY)
    assert (again.status_code, again.json()["code"]) == (409, "already-completed")
    assert handler.runs == 1


@on(["uvicorn-starlette"], ["memory"])
def test_websockets_work_as_without(shop):
    url = shop.url.replace("http://", "ws://")
    with connect(f"{url}/echo", additional_headers=KEY) as websocket:
        websocket.send("hello")
        assert websocket.recv() == "hello"


@on(["uvicorn-starlette"], ["memory"], around=["gzip-inside", "gzip-outside"])
@pytest.mark.parametrize("codings", [("gzip", "gzip"), ("gzip", "identity"), ("identity", "gzip")])
def test_each_try_is_answered_in_a_coding_that_it_accepts(shop, codings):
    name = new_id()

    def ask(coding):
        headers = {"X-User": "someone", "Accept-Encoding": coding, "Idempotency-Key": name}
        return httpx.post(f"{shop.url}/orders", headers=headers, json={"name": name})

    first, again = map(ask, codings)
    assert again.headers["idempotent-replayed"] == "true"
    assert again.json() == first.json()
    assert (
        "identity" not in codings
        or "content-encoding" not in (first, again)[codings.index("identity")].headers
    )


@on(["uvicorn-starlette"], ["memory"], around=["gzip-outside"])
def test_what_stands_outside_compresses_replays_too(shop):
    with httpx.Client(base_url=shop.url, headers={"X-User": "someone", "Accept-Encoding": "gzip"}) as client:
        responses = [client.post("/orders", headers=KEY, json={"name": "zipped"}) for _ in range(2)]
    assert [response.headers["content-encoding"] for response in responses] == ["gzip", "gzip"]
    assert [response.headers["vary"] for response in responses] == ["Accept-Encoding"] * 2


@pytest.mark.parametrize(
    ("accepts", "plain"),
    [("gzip", False), ("br;q=1, *;q=0.1", False), ("identity", True), ("gzip;q=0", True)],
)
async def test_what_a_handler_compressed_is_given_to_those_who_cannot_read_that_without(accepts, plain):
    zipped = Response(gzip.compress(b"done"), headers={"Content-Encoding": "gzip"})
    async with asking(Counter(lambda request: zipped)) as client:
        await client.post("/", headers={**KEY, "Accept-Encoding": "gzip"})
        again = await client.post("/", headers={**KEY, "Accept-Encoding": accepts})
    assert ("content-encoding" not in again.headers) is plain
    assert again.content == b"done"
    assert int(again.headers["content-length"]) == (4 if plain else len(zipped.body))


async def test_of_a_body_compressed_in_several_members_all_are_replayed():
    members = gzip.compress(b"one, ") + gzip.compress(b"two")
    async with asking(
        Counter(lambda request: Response(members, headers={"Content-Encoding": "gzip"}))
    ) as client:
        await client.post("/", headers=KEY)
        again = await client.post("/", headers={**KEY, "Accept-Encoding": "identity"})
    assert again.content == b"one, two"


async def test_a_guard_that_cannot_be_made_keeps_the_app_from_starting():
    """Servers take an error on the way to it for an app that has no lifespan, and go on."""
    app = Starlette(middleware=[Middleware(IdempotencyMiddleware, store="carrier-pigeon://", scope=SHARED)])
    line = Line({"type": "lifespan.startup"})
    await app({"type": "lifespan", "app": app, "state": {}}, line.receive, line.send)
    [said] = line.sent
    assert said["type"] == "lifespan.startup.failed"
    assert "carrier-pigeon" in said["message"]
    with pytest.raises(ConfigError, match="carrier-pigeon"):
        await app(dict(SCOPE), line.receive, line.send)


def test_outside_of_an_event_loop_it_is_an_error_at_once():
    with pytest.raises(ConfigError, match="carrier-pigeon"):
        protected(None, store="carrier-pigeon://")


class Streaming:
    """An app that sends without end, and when it was told to stop."""

    def __init__(self, *headers):
        self.headers = headers
        self.began, self.ended = asyncio.Event(), asyncio.Event()

    async def __call__(self, scope, receive, send):
        await receive()
        await send({"type": "http.response.start", "status": 200, "headers": list(self.headers)})
        leaving = asyncio.create_task(receive())
        try:
            while not leaving.done():
                await send({"type": "http.response.body", "body": b"tick", "more_body": True})
                self.began.set()
                await asyncio.sleep(0.02)
        finally:
            leaving.cancel()
            self.ended.set()


@pytest.mark.parametrize(
    "headers", [[(b"content-type", b"text/event-stream")], [(b"x-accel-buffering", b"no")], []]
)
@pytest.mark.parametrize("how", ["the handler is told", "the request is cancelled"])
async def test_a_stream_is_not_kept_alive_for_nobody(headers, how):
    app = Streaming(*headers)
    line = Line(body())
    if how == "the handler is told":
        line.waiting.append({"type": "http.disconnect"})
    task = asyncio.create_task(protected(app, stream_after="50ms")(dict(SCOPE), line.receive, line.send))
    if how == "the request is cancelled":
        await app.began.wait()
        task.cancel()
    await asyncio.wait_for(app.ended.wait(), 5)
    await asyncio.wait([task])


async def test_a_server_that_shuts_down_waits_for_handlers_whose_clients_have_gone():
    proceed, shut = asyncio.Event(), asyncio.Event()

    async def app(scope, receive, send):
        if scope["type"] == "lifespan":
            await receive()
            assert (await receive())["type"] == "lifespan.shutdown"
            shut.set()
            return
        await proceed.wait()
        assert not shut.is_set()  # what it needs is still there
        await answer(send)

    async with AsyncOnce("memory://") as once:
        middleware = protected(app, store=once)
        request, lifespan = Line(body()), Line({"type": "lifespan.startup"}, {"type": "lifespan.shutdown"})
        task = asyncio.create_task(middleware(dict(SCOPE), request.receive, request.send))
        while await once.get(key_for(SHARED, "k")) is None:  # noqa: ASYNC110 - in the store
            await asyncio.sleep(0)
        task.cancel()
        await asyncio.wait([task])
        ending = asyncio.create_task(middleware({"type": "lifespan"}, lifespan.receive, lifespan.send))
        await asyncio.sleep(0.05)
        assert not shut.is_set()
        proceed.set()
        await ending
        assert (await once.get(key_for(SHARED, "k"))).state == "done"


async def test_it_does_not_wait_for_ever(caplog):
    async def app(scope, receive, send):
        if scope["type"] == "http":
            await asyncio.Event().wait()

    async with AsyncOnce("memory://") as once:
        middleware = protected(app, store=once, drain="50ms")
        line = Line(body())
        task = asyncio.create_task(middleware(dict(SCOPE), line.receive, line.send))
        while await once.get(key_for(SHARED, "k")) is None:  # noqa: ASYNC110 - in the store
            await asyncio.sleep(0)
        task.cancel()
        await asyncio.wait([task])
        await middleware._guard.drain()
        assert "1 handlers were cut off" in caplog.text
        assert (await once.get(key_for(SHARED, "k"))).state == "running"  # it may have done its work
