"""The options: which requests are guarded, how they are told apart, and what becomes of their keys."""

import asyncio
import json
from uuid import UUID

import pytest
from fastapi import FastAPI, HTTPException
from http_asking import KEY, Counter, asking, client_of, guarded, twice
from starlette.applications import Starlette
from starlette.background import BackgroundTask
from starlette.middleware import Middleware
from starlette.responses import JSONResponse, PlainTextResponse, Response
from starlette.routing import Route

from dupeproof import AsyncOnce, Once, child_key, step
from dupeproof.errors import ConfigError
from dupeproof.http import SHARED, IdempotencyMiddleware, idempotency, key_for
from dupeproof.http.flask import Idempotent as FlaskIdempotent
from dupeproof.http.wsgi import IdempotencyMiddleware as WsgiMiddleware


def code_of(response):
    assert response.headers["content-type"] == "application/problem+json"
    return response.status_code, response.json()["code"]


async def test_a_missing_key_is_refused_where_one_is_required():
    handler = Counter()
    async with asking(handler, required=True) as client:
        assert code_of(await client.post("/")) == (400, "key-missing")
        assert (await client.get("/")).status_code == 200
    assert handler.runs == 1


@pytest.mark.parametrize(
    ("key", "told"),
    [
        ("Idempotency-Key", "needs the header Idempotency-Key"),
        ("X-Request-Key", "needs the header X-Request-Key"),
        (lambda request: None, "needs an idempotency key"),
    ],
)
async def test_a_client_is_told_what_to_send(key, told):
    async with asking(Counter(), key=key, required=True) as client:
        assert told in (await client.post("/")).json()["detail"]


@pytest.mark.parametrize(
    ("method", "methods", "runs"),
    [
        ("POST", None, 1),
        ("PATCH", None, 1),
        ("PUT", None, 2),
        ("DELETE", None, 2),
        ("GET", None, 2),
        ("PUT", ["PUT", "DELETE"], 1),
        ("DELETE", ["PUT", "DELETE"], 1),
        ("POST", ["PUT", "DELETE"], 2),
        ("PUT", ["put"], 1),
    ],
)
async def test_which_methods_are_guarded(method, methods, runs):
    handler = Counter()
    options = {} if methods is None else {"methods": methods}
    async with asking(handler, **options) as client:
        await twice(client, method=method)
    assert handler.runs == runs


async def test_which_requests_are_guarded_may_be_said():
    handler = Counter()
    async with asking(handler, when=lambda request: request.url.path.startswith("/pay")) as client:
        await twice(client, url="/look")
        await twice(client, url="/pay")
    assert handler.runs == 3


async def test_the_key_may_come_from_elsewhere():
    handler = Counter()
    async with asking(handler, key=lambda request: request.query_params.get("id")) as client:
        await twice(client, url="/?id=1", headers={})
        await twice(client, url="/?id=2", headers={})
    assert handler.runs == 2


@pytest.mark.parametrize(
    ("found", "status"),
    [(5, 200), (UUID(int=1), 200), ("k\xe9y", 200), ("x" * 255, 200), ("x" * 256, 400), ("", 400), (" ", 400)]
    + [(each, 400) for each in ("lone \ud800", "nul \0", b"bytes", False, 1.5, ["list"])],
)
async def test_what_a_key_from_elsewhere_may_be(found, status):
    handler = Counter()
    async with asking(handler, key=lambda request: found) as client:
        assert {response.status_code for response in await twice(client)} == {status}
    assert handler.runs == (status == 200)


async def test_single_routes_of_starlette_may_be_guarded():
    handler = Counter()

    async def endpoint(request):
        return await handler(request)

    guard = Middleware(IdempotencyMiddleware, store="memory://", scope=SHARED)
    routes = [
        Route("/guarded", endpoint, methods=["POST"], middleware=[guard]),
        Route("/plain", endpoint, methods=["POST"]),
    ]
    async with client_of(Starlette(routes=routes)) as client:
        for path in ("/guarded", "/plain"):
            for _ in range(2):
                await client.post(path, headers=KEY)
    assert handler.runs == 1 + 2


async def test_an_app_that_is_guarded_twice_runs_once():
    handler = Counter()
    store = {"store": "memory://asgi-twice"}
    twofold = IdempotencyMiddleware(guarded(handler, **store), scope=SHARED, **store)
    async with client_of(twofold) as client:
        first, again = await twice(client)
    assert (first.status_code, again.status_code) == (200, 200)
    assert again.headers["idempotent-replayed"] == "true"
    assert handler.runs == 1


async def test_a_request_that_a_handler_makes_is_guarded_for_itself():
    """Although it has the same key and goes to an app in this process."""
    inner = Counter()

    bank = guarded(inner, store="memory://of-the-bank")

    async def pay(request):
        async with client_of(bank) as client:
            answer = await client.post("/", headers=KEY)
        return JSONResponse({"replayed": answer.headers.get("idempotent-replayed")}, 500)

    async with asking(Counter(pay)) as client:
        first, again = await twice(client)
    assert (first.json(), again.json()) == ({"replayed": None}, {"replayed": "true"})
    assert inner.runs == 1


async def test_the_header_may_have_another_name():
    handler = Counter()
    async with asking(handler, key="X-Request-Key") as client:
        await twice(client, headers={"X-Request-Key": "k"})
        await twice(client)
    assert handler.runs == 3


async def test_keys_may_be_validated():
    handler = Counter()
    async with asking(handler, validate=lambda key: key.startswith("ord_")) as client:
        assert code_of(await client.post("/", headers=KEY)) == (400, "key-malformed")
        assert (await client.post("/", headers={"Idempotency-Key": "ord_1"})).status_code == 200
    assert handler.runs == 1


async def test_what_must_be_equal_may_be_chosen():
    handler = Counter()
    async with asking(handler, fingerprint=lambda request, body: json.loads(body)["amount"]) as client:
        await client.post("/", headers=KEY, json={"amount": 1, "sent": 1})
        again = await client.post("/", headers=KEY, json={"amount": 1, "sent": 2})
        assert again.headers["idempotent-replayed"] == "true"
        assert code_of(await client.post("/", headers=KEY, json={"amount": 2})) == (422, "key-reused")
    assert handler.runs == 1


@pytest.mark.parametrize("body", [b"no json", b"{}", b'{"amount": NaN}', b"\xff"])
async def test_what_makes_no_sense_is_left_to_the_handler(body, caplog):
    handler = Counter(lambda request: Response(status_code=400))
    async with asking(handler, fingerprint=lambda request, body: json.loads(body)["amount"]) as client:
        answers = [
            (await client.post("/", headers=KEY, content=each)).status_code for each in (body, body, b"")
        ]
    assert answers == [400, 400, 422]
    assert handler.runs == 1
    assert "all of a request counts" in caplog.text


@pytest.mark.parametrize(
    ("first", "second", "same"),
    [
        ({"url": "/a"}, {"url": "/b"}, False),
        ({"url": "/a"}, {"url": "/a/"}, True),
        ({"url": "/a"}, {"url": "/a/b"}, False),
        ({"url": "/?a=1"}, {"url": "/?a=2"}, False),
        ({"method": "PATCH"}, {"method": "POST"}, False),
        ({"content": b"a"}, {"content": b"b"}, False),
        ({"headers": {"Content-Type": "a/b"}}, {"headers": {"Content-Type": "a/c"}}, False),
        ({"headers": {"Content-Type": "a/b; x=1"}}, {"headers": {"Content-Type": "A/B"}}, True),
        ({"headers": {"X-Other": "1"}}, {"headers": {"X-Other": "2"}}, True),
    ],
)
async def test_what_makes_a_request_the_same(first, second, same):
    handler = Counter()
    async with asking(handler) as client:
        for request in (first, second):
            headers = {**KEY, **request.get("headers", {})}
            response = await client.request(**{"method": "POST", "url": "/", **request, "headers": headers})
    assert response.status_code == (200 if same else 422)
    assert handler.runs == 1


async def test_another_boundary_is_the_same_request():
    def body(boundary, value):
        return f'--{boundary}\r\nContent-Disposition: form-data; name="a"\r\n\r\n{value}\r\n--{boundary}--\r\n'.encode()

    handler = Counter()
    async with asking(handler) as client:
        for boundary, value in [("one", "1"), ("another", "1"), ("third", "2")]:
            headers = {**KEY, "Content-Type": f"multipart/form-data; boundary={boundary}"}
            response = await client.post("/", headers=headers, content=body(boundary, value))
            assert response.status_code == (200 if value == "1" else 422)
    assert handler.runs == 1


async def test_the_way_of_stripe():
    async with asking(Counter(), style="stripe") as client:
        await client.post("/", headers=KEY, content=b"1")
        assert code_of(await client.post("/", headers=KEY, content=b"2")) == (400, "key-reused")


@pytest.mark.parametrize("kind", ["raises", "answers"])
@pytest.mark.parametrize(
    ("on_error", "runs", "second"), [("reopen", 2, 500), ("store", 1, 500), ("hold", 1, 409)]
)
async def test_what_becomes_of_errors(kind, on_error, runs, second):
    def fail(request):
        if kind == "raises":
            raise RuntimeError("broken")
        return PlainTextResponse("broken", 500)

    handler = Counter(fail)
    async with asking(handler, on_error=on_error) as client:
        first, again = await twice(client)
    assert (first.status_code, again.status_code) == (500, second)
    assert again.headers.get("idempotent-replayed") == ("true" if on_error == "store" else None)
    assert handler.runs == runs


async def test_what_is_held_is_so_at_once(any_url):
    handler = Counter(lambda request: Response(status_code=500))
    async with (
        AsyncOnce(any_url, namespace="http", on_abandoned="hold") as once,
        asking(handler, store=once, on_error="hold") as client,
    ):
        _, again = await twice(client)
        assert code_of(again) == (409, "unresolved")
        await once.reopen(key_for(SHARED, "k"))
        await twice(client)
    assert handler.runs == 2


@pytest.mark.parametrize("status", [401, 403, 407, 408, 409, 421, 425, 429])
async def test_what_is_turned_away_may_come_again(status):
    handler = Counter(lambda request: Response(status_code=status))
    async with asking(handler) as client:
        await twice(client)
    assert handler.runs == 2


@pytest.mark.parametrize("status", [200, 201, 202, 204, 302, 303, 400, 402, 404, 410, 415, 418, 451, 299])
async def test_what_is_answered_is_stored(status):
    handler = Counter(lambda request: Response(status_code=status))
    async with asking(handler) as client:
        first, again = await twice(client)
    assert first.status_code == again.status_code == status
    assert again.headers["idempotent-replayed"] == "true"
    assert handler.runs == 1


@pytest.mark.parametrize("status", [301, 307, 308, 401, 403, 409, 422, 429])
async def test_what_says_that_nothing_was_done_is_not_stored(status):
    handler = Counter(lambda request: Response(status_code=status))
    async with asking(handler) as client:
        first, again = await twice(client)
        assert first.status_code == again.status_code == status
        assert "idempotent-replayed" not in again.headers
        assert (await client.post("/elsewhere", headers=KEY, content=b"corrected")).status_code == status
    assert handler.runs == 3


async def test_the_handler_has_the_last_word():
    def store(request):
        idempotency.store()
        return Response(status_code=503)

    def release(request):
        idempotency.release()
        return Response(status_code=200)

    for answer, runs in ((store, 1), (release, 2)):
        handler = Counter(answer)
        async with asking(handler) as client:
            await twice(client)
        assert handler.runs == runs


@pytest.mark.parametrize("decide", [idempotency.store, idempotency.release, idempotency.hold])
async def test_what_is_decided_stays_so(decide):
    told = []

    def too_late():
        with pytest.raises(ConfigError, match="background task") as caught:
            decide()
        told.append(caught)

    handler = Counter(lambda request: PlainTextResponse("done", background=BackgroundTask(too_late)))
    async with asking(handler, on_error="hold") as client:
        await twice(client)
    assert len(told) == handler.runs == 1


async def test_without_a_store_there_is_nothing_to_decide():
    def release(request):
        idempotency.release()
        return Response(status_code=200)

    url = "redis://127.0.0.1:1?timeout=200ms"
    async with asking(Counter(release), store=url, on_store_down="run") as client:
        assert (await client.post("/", headers=KEY)).status_code == 200


async def test_a_handler_can_hold_its_key_also_where_abandoned_ones_run_again():
    def hold(request):
        idempotency.hold()
        return Response(status_code=200)

    handler = Counter(hold)
    async with asking(handler) as client:
        first, again = await twice(client)
    assert (first.status_code, code_of(again)) == (200, (409, "unresolved"))
    assert handler.runs == 1


async def test_the_handler_knows_its_attempt_and_its_child_keys():
    seen = []

    def fail_once(request):
        seen.append((idempotency.attempt(), idempotency.child_key("charge"), idempotency.child_key("mail")))
        return Response(status_code=500 if len(seen) == 1 else 200)

    async with asking(Counter(fail_once)) as client:
        await twice(client)
        await client.post("/", headers={"Idempotency-Key": "another"})
    (first, charge, mail), (second, charge_again, _), (_, others, _) = seen
    assert (first, second) == (1, 2)
    assert charge == charge_again
    assert len({charge, mail, others}) == 3
    assert not idempotency.is_guarded()


async def test_a_duplicate_may_wait_for_the_response():
    async def slow(request):
        await asyncio.sleep(0.2)
        return JSONResponse({})

    handler = Counter(slow)
    async with asking(handler, wait="10s") as client:
        responses = await asyncio.gather(*(client.post("/", headers=KEY) for _ in range(5)))
    assert {response.status_code for response in responses} == {200}
    assert handler.runs == 1


async def test_attempts_may_be_limited():
    handler = Counter(lambda request: Response(status_code=500))
    async with asking(handler, max_attempts=2) as client:
        for _ in range(2):
            assert (await client.post("/", headers=KEY)).status_code == 500
        assert code_of(await client.post("/", headers=KEY)) == (409, "attempts-exhausted")
    assert handler.runs == 2


async def test_replays_may_come_from_memory(own_redis):
    redis = own_redis()
    handler = Counter()
    async with asking(handler, store=redis.url, cache=10) as client:
        await client.post("/", headers=KEY)
        redis.kill()
        again = await client.post("/", headers=KEY)
    assert again.headers["idempotent-replayed"] == "true"


async def test_a_scope_may_be_async():
    async def user(request):
        await asyncio.sleep(0)
        return request.headers["x-user"]

    handler = Counter()
    async with asking(handler, scope=user) as client:
        for name in ("a", "b", "a"):
            await client.post("/", headers={**KEY, "X-User": name})
    assert handler.runs == 2


@pytest.mark.parametrize("status", [401, 201])
async def test_a_scope_that_knows_nobody_leaves_it_to_the_app(status, caplog):
    handler = Counter(lambda request: Response(status_code=status))
    async with asking(handler, scope=lambda request: None) as client:
        answers = await twice(client)
    assert [answer.status_code for answer in answers] == [status, status]
    assert handler.runs == 2
    assert caplog.text.count("without a guard") == (status == 201)


@pytest.mark.parametrize("owner", ["", "   ", object(), 1.5, b"bytes", True])
async def test_a_scope_that_says_nothing_is_an_error(owner, caplog):
    handler = Counter()
    async with asking(handler, scope=lambda request: owner) as client:
        assert code_of(await client.post("/", headers={"Idempotency-Key": "sesame"})) == (
            500,
            "scope-missing",
        )
    assert handler.runs == 0
    assert "sesame" not in caplog.text


async def test_a_record_can_be_found_by_its_key():
    async with (
        AsyncOnce("memory://") as once,
        asking(Counter(), store=once, scope=lambda request: 7) as client,
    ):
        await client.post("/", headers=KEY)
        assert (await once.get(key_for(7, "k"))).state == "done"
        assert await once.forget(key_for(7, "k"))


def test_no_scope_and_key_together_look_like_another_pair():
    assert len({key_for("a:1", "b"), key_for("a", "1:b"), key_for("a", "b"), key_for(SHARED, "b")}) == 4


async def yes(*_):
    return True


BAD = [
    ({"scope": None}, "scope= says whose key it is"),
    ({"methods": ["GET"]}, "methods= may name"),
    ({"methods": []}, "methods= may name"),
    ({"on_error": "ignore"}, "on_error must be one of"),
    ({"style": "mine"}, "style must be one of"),
    ({"request_limit": "1MB"}, "request_limit is a number of bytes"),
    ({"response_limit": -1}, "response_limit is a number of bytes"),
    ({"when": yes}, "when= takes a plain function"),
    ({"key": yes}, "key= takes a plain function"),
    ({"validate": yes}, "validate= takes a plain function"),
    ({"fingerprint": yes}, "fingerprint= takes a plain function"),
    ({"validate": "uuid"}, "validate= takes a plain function"),
    ({"windw": "1h"}, "there is no option 'windw'"),
    ({"store": "nonsense"}, "is not a store URL"),
    ({"window": "soon"}, "window"),
]


@pytest.mark.parametrize(
    "middleware", [IdempotencyMiddleware, WsgiMiddleware, lambda app, **all: FlaskIdempotent(**all)]
)
@pytest.mark.parametrize(("options", "text"), BAD)
def test_mistakes_are_told_at_once(middleware, options, text):
    with pytest.raises(ConfigError, match=text):
        middleware(None, **{"store": "memory://", "scope": SHARED, **options})


def test_a_guard_of_your_own_keeps_its_own_terms():
    with pytest.raises(ConfigError, match="window: your AsyncOnce has its own"):
        IdempotencyMiddleware(None, store=AsyncOnce("memory://"), scope=SHARED, window="1h")
    for middleware, other in ((IdempotencyMiddleware, Once), (WsgiMiddleware, AsyncOnce)):
        with pytest.raises(ConfigError, match=f"got {other.__name__}"):
            middleware(None, store=other("memory://"), scope=SHARED)


def test_a_sync_middleware_takes_no_async_scope():
    async def user(request): ...

    with pytest.raises(ConfigError, match="async function"):
        WsgiMiddleware(None, store="memory://", scope=user)


# Who may see a stored response


async def test_who_may_not_see_a_response_any_more_is_not_given_it():
    allowed, handler = [True], Counter()

    async def may_see(request):
        return allowed[0]

    async with asking(handler, authorize=may_see) as client:
        await client.post("/", headers=KEY)
        assert (await client.post("/", headers=KEY)).headers["idempotent-replayed"] == "true"
        allowed[0] = False
        assert code_of(await client.post("/", headers=KEY)) == (403, "not-authorized")
        assert code_of(await client.post("/", headers=KEY, content=b"other")) == (403, "not-authorized")
        # What the guard does not answer itself is the app's own affair.
        assert (await client.post("/", headers={"Idempotency-Key": "new"})).status_code == 200
    assert handler.runs == 2


def _refuse(request):
    raise HTTPException(401, "who are you?", headers={"WWW-Authenticate": "Bearer"})


async def _refuse_later(request):
    _refuse(request)


@pytest.mark.parametrize("refuse", [_refuse, _refuse_later])
@pytest.mark.parametrize("option", ["scope", "authorize"])
async def test_an_http_exception_of_theirs_is_answered_as_such(option, refuse):
    handler = Counter()
    async with asking(handler, **({"scope": refuse} if option == "scope" else {})) as client:
        refused = await client.post("/", headers=KEY)
    if option == "authorize":
        async with asking(handler, authorize=refuse) as client:
            await client.post("/", headers=KEY)
            refused = await client.post("/", headers=KEY)
    assert (refused.status_code, refused.headers["www-authenticate"]) == (401, "Bearer")
    assert "who are you?" in refused.text
    assert handler.runs == (option == "authorize") * 2


async def test_it_is_answered_as_the_app_answers_those_of_its_handlers():
    app = FastAPI()
    app.add_middleware(IdempotencyMiddleware, store="memory://", scope=_refuse)
    async with client_of(app) as client:
        assert (await client.post("/", headers=KEY)).json() == {"detail": "who are you?"}
    app.exception_handler(401)(
        lambda request, exc: PlainTextResponse(f"sorry: {exc.detail}", exc.status_code)
    )
    async with client_of(app) as client:
        response = await client.post("/", headers=KEY)
    assert (response.status_code, response.text) == (401, "sorry: who are you?")


async def test_what_is_no_http_exception_is_an_error():
    async with asking(Counter(), scope=lambda request: request.headers["x-user"]) as client:
        assert (await client.post("/", headers=KEY)).status_code == 500


# What is compared


async def test_method_and_path_always_count():
    handler = Counter()
    async with asking(handler, methods=("POST", "PATCH"), fingerprint=lambda request, body: 1) as client:
        await client.post("/orders", headers=KEY, content=b"1")
        assert (await client.post("/orders", headers=KEY, content=b"2")).status_code == 200
        assert code_of(await client.post("/refunds", headers=KEY, content=b"1")) == (422, "key-reused")
        assert code_of(await client.patch("/orders", headers=KEY, content=b"1")) == (422, "key-reused")
    assert handler.runs == 1


@pytest.mark.parametrize(
    ("first", "second", "same"),
    [
        (b'{"a": 1, "b": [2.0, "x"]}', b'{"b":[2,"x"],"a":1}', True),
        (b'{"a": "\\u00e9"}', '{"a": "é"}'.encode(), True),
        (b'{"a": 1}', b'{"a": 2}', False),
        (b'{"a": 1}', b'{"a": "1"}', False),
        (b'{"a": [1, 2]}', b'{"a": [2, 1]}', False),
        (b'{"a": 1, "a": 2}', b'{"a": 2}', False),
        (b"[" * 2_000 + b"]" * 2_000, b"[" * 2_000 + b" " + b"]" * 2_000, False),
        (b"no json", b"no  json", False),
        (b"NaN", b" NaN", False),
        (b"", b" ", False),
        (b"18446744073709551617", b"18446744073709551616", False),
    ],
)
async def test_json_is_compared_by_what_it_says(first, second, same):
    handler = Counter()
    async with asking(handler, fingerprint="json") as client:
        headers = {**KEY, "Content-Type": "application/json"}
        answers = [await client.post("/?a=1", headers=headers, content=each) for each in (first, second)]
        assert code_of(await client.post("/?a=2", headers=headers, content=first)) == (422, "key-reused")
    assert answers[0].status_code == 200
    assert (answers[1].status_code == 200) is same


async def test_what_is_not_sent_as_json_is_compared_byte_by_byte():
    async with asking(Counter(), fingerprint="json") as client:
        await client.post("/", headers={**KEY, "Content-Type": "text/plain"}, content=b"[1]")
        other = await client.post("/", headers={**KEY, "Content-Type": "text/plain"}, content=b"[ 1]")
    assert code_of(other) == (422, "key-reused")


@pytest.mark.parametrize("fingerprint", [None, "json", lambda request, body: 1])
async def test_headers_count_if_they_are_named(fingerprint):
    options = {} if fingerprint is None else {"fingerprint": fingerprint}
    async with asking(Counter(), headers=("If-Match",), **options) as client:
        sent = [{"If-Match": "a"}, {"if-match": "a"}, {"If-Match": "b"}, {"If-Match": ""}, {}]
        answers = [await client.post("/", headers={**KEY, **headers}) for headers in sent]
    assert [answer.status_code for answer in answers] == [200, 200, 422, 422, 422]


@pytest.mark.parametrize(
    "wrong",
    [
        {"fingerprint": "xml"},
        {"fingerprint": 3},
        {"headers": ("",)},
        {"headers": (3,)},
        {"authorize": "admin"},
        {"stream_after": "soon"},
        {"drain": -1},
    ],
)
def test_options_that_make_no_sense_are_refused_when_the_guard_is_made(wrong):
    with pytest.raises(ConfigError, match=next(iter(wrong))):
        IdempotencyMiddleware(None, store="memory://", scope=SHARED, **wrong)


@pytest.mark.parametrize(
    ("first", "other"),
    [
        ("12345678901234567.89", "12345678901234567.90"),
        ("0.1", "0.10000000000000000001"),
        ("0e-999999999999999999999", "0e-999999999999999999998"),
    ],
)
async def test_numbers_that_differ_beyond_what_a_float_holds_are_different_json(first, other):
    handler = Counter()
    async with asking(handler, fingerprint="json") as client:
        headers = {**KEY, "Content-Type": "application/json"}
        for content in (f'{{"amount": {first}}}', f'{{"amount": {first}}}'):
            assert (await client.post("/", headers=headers, content=content)).status_code == 200
        again = await client.post("/", headers=headers, content=f'{{"amount": {other}}}')
    assert code_of(again) == (422, "key-reused")
    assert handler.runs == 1


async def test_steps_of_a_handler_run_once_over_its_attempts():
    charged, keys = [], []

    async def charge(amount: int) -> int:
        charged.append(amount)
        return amount

    async def handle(request):
        keys.append(child_key("charge"))
        paid = await step("charge", charge, 5)
        if len(keys) == 1:
            raise RuntimeError
        return Response(content=str(paid))

    async with asking(Counter(handle)) as client:
        assert (await client.post("/", headers=KEY)).status_code == 500
        assert (await client.post("/", headers=KEY)).text == "5"
    assert (charged, len({*keys})) == ([5], 1)
