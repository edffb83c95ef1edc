"""The client that is sent elsewhere: its key stays with those who may know it, and the request stays retry-safe."""

import asyncio

import httpx
import pytest
from misbehaving import HANG_UP, Server, answer

from dupeproof.http.client import AsyncIdempotentTransport, IdempotentTransport

OK = answer(200, b'{"done": true}', Content_Type="application/json")


@pytest.fixture(params=["sync", "async"])
def send(request):
    """`send(method, url, inner transport, …)`: one request by either client, which follows redirects."""

    def plainly(method, url, *, inner=None, client_options=None, extensions=None, **given):
        transport = IdempotentTransport(inner, backoff="10ms", deadline="3s")
        with httpx.Client(
            transport=transport, follow_redirects=True, timeout=5, **(client_options or {})
        ) as client:
            return client.request(method, url, extensions=extensions, **given)

    def in_a_loop(method, url, *, inner=None, client_options=None, extensions=None, **given):
        async def main():
            transport = AsyncIdempotentTransport(inner, backoff="10ms", deadline="3s")
            async with httpx.AsyncClient(
                transport=transport, follow_redirects=True, timeout=5, **(client_options or {})
            ) as client:
                return await client.request(method, url, extensions=extensions, **given)

        return asyncio.run(main())

    return plainly if request.param == "sync" else in_a_loop


def to(url, status=307):
    return answer(status, Location=url)


@pytest.mark.parametrize("status", [307, 308])
@pytest.mark.parametrize("headers", [{}, {"Idempotency-Key": "mine"}], ids=["ours", "the caller's"])
def test_within_an_origin_the_key_is_kept(send, status, headers):
    with Server(HANG_UP, to("/orders/", status), HANG_UP, OK) as server:
        response = send("POST", server.url, json={"amount": 5}, headers=headers)
        assert response.json() == {"done": True}
        assert response.url.path == "/orders/"
        assert len(server.asked) == 4
        assert set(server.keys) == {headers.get("Idempotency-Key", server.keys[0])}
        assert {body for _, _, body in server.asked} == {b'{"amount":5}'}


@pytest.mark.parametrize("headers", [{}, {"Idempotency-Key": "mine"}], ids=["ours", "the caller's"])
@pytest.mark.parametrize("method", ["POST", "PATCH"])
def test_another_origin_does_not_learn_the_key_and_is_still_asked_with_one(send, method, headers):
    with Server(HANG_UP, OK) as other, Server(to(other.url)) as first:
        response = send(method, first.url, headers=headers)
        assert response.status_code == 200
        [key] = first.keys
        assert len(other.keys) == 2
        assert None not in other.keys
        assert len(set(other.keys)) == 1
        assert key not in other.keys
        assert response.history[0].request.headers["Idempotency-Key"] == key
        # Who begins again with the key of the first try finds what was done there.
        send(method, first.url, headers={"Idempotency-Key": key})
        assert first.keys == [key, key]
        assert len(set(other.keys)) == 1


def test_two_origins_have_two_keys_and_whoever_made_the_first_gets_it_back(send):
    with Server(OK) as last, Server(to(last.url)) as second, Server() as first:
        first.script = [to(second.url), OK]
        send("POST", first.url, headers={"Idempotency-Key": "mine"})
        assert len({"mine", *second.keys, *last.keys}) == 3
        second.script = [to(first.url)]
        first.script = [to(second.url), OK]
        send("POST", first.url, headers={"Idempotency-Key": "mine"})
        assert first.keys == ["mine"] * 3


@pytest.mark.parametrize("method", ["POST", "PATCH", "PUT"])
@pytest.mark.parametrize("status", [301, 302, 303])
def test_what_becomes_a_get_takes_no_key_along(send, method, status):
    with Server(to("/elsewhere", status), to("/once-more", 307), OK) as server:
        send(method, server.url, headers={"Idempotency-Key": "mine"})
        asked = [how for how, _, _ in server.asked]
        became = method if status == 301 and method != "POST" else "GET"  # as httpx has it
        assert asked == [method, became, became]
        assert server.keys == (["mine"] * 3 if became == method else ["mine", None, None])


def test_a_hook_that_sets_the_key_of_every_request_gives_it_away_to_nobody(send):
    def plainly(request):
        request.headers["Idempotency-Key"] = "mine"

    async def in_a_loop(request):
        plainly(request)

    hook = plainly if send.__name__ == "plainly" else in_a_loop
    with Server(OK) as third, Server(to(third.url)) as second, Server(to(second.url)) as first:
        send("POST", first.url, client_options={"event_hooks": {"request": [hook]}})
        assert first.keys == ["mine"]
        assert "mine" not in second.keys + third.keys


def test_extensions_that_a_caller_gives_to_every_request_do_not_make_them_one(send):
    given = {"timeout": {"connect": 5.0, "read": 5.0, "write": 5.0, "pool": 5.0}}
    with Server(OK) as server:
        for _ in range(2):
            send("POST", server.url, extensions=given)
        assert len(set(server.keys)) == 2
        assert given == {"timeout": {"connect": 5.0, "read": 5.0, "write": 5.0, "pool": 5.0}}


def test_the_extensions_of_a_request_before_do_not_make_the_next_one_its_redirect(send):
    with Server(to("/elsewhere", 303), OK) as server:
        before = send("POST", server.url).request
        assert before.method == "GET"
        send("POST", server.url, extensions=before.extensions)
        assert None not in (server.keys[0], server.keys[-1])
        assert server.keys[0] != server.keys[-1]


def test_a_redirect_begins_with_the_waits_the_caller_allowed(send):
    with Server(to("/orders/"), OK) as server:
        response = send("POST", server.url)
        assert response.request.extensions["timeout"]["read"] == 5  # and not what was left of the deadline


def test_a_body_that_can_be_read_once_follows_too():
    def parts():
        yield b"one,"
        yield b"two"

    with (
        Server(to("/orders/"), OK) as server,
        httpx.Client(transport=IdempotentTransport(), follow_redirects=True) as client,
    ):
        assert client.post(server.url, content=parts()).status_code == 200
        assert [b"one," in body and b"two" in body for _, _, body in server.asked] == [True, True]


def test_a_request_that_is_sent_again_by_hand_keeps_its_key():
    with (
        Server(OK) as other,
        Server(to(other.url)) as first,
        httpx.Client(transport=IdempotentTransport(), follow_redirects=True) as client,
    ):
        request = client.build_request("POST", first.url)
        for _ in range(2):
            client.send(request)
        assert len(set(first.keys)) == len(set(other.keys)) == 1


def test_redirects_are_followed_by_hand_with_the_same_keys():
    with (
        Server(OK) as other,
        Server(to(other.url)) as first,
        httpx.Client(transport=IdempotentTransport()) as client,
    ):
        response = client.post(first.url)
        while response.next_request is not None:
            response = client.send(response.next_request)
        assert response.status_code == 200
        assert first.keys != other.keys
        assert len(other.keys) == 1


@pytest.mark.parametrize("status", [303, 307, 308])
def test_a_circle_ends_where_httpx_ends_it(send, status):
    with Server(to("/orders", status)) as server:
        with pytest.raises(httpx.TooManyRedirects):
            send("POST", server.url, client_options={"max_redirects": 4})
        assert len(server.asked) == 5


def test_a_circle_of_two_origins_ends_too(send):
    with Server() as first, Server(to(first.url)) as second:
        first.script = [to(second.url)]
        with pytest.raises(httpx.TooManyRedirects):
            send("POST", first.url, client_options={"max_redirects": 5})
        assert len(first.asked) + len(second.asked) == 6
        assert len(set(first.keys)) == len(set(second.keys)) == 1


@pytest.mark.parametrize(
    ("source", "target", "kept"),
    [
        ("http://shop/a", "https://shop/a", True),
        ("http://shop:80/a", "https://SHOP:443/b", True),
        ("https://shop/a", "https://shop:443/b", True),
        ("http://[::1]/a", "https://[::1]/a", True),
        ("https://shop/a", "http://shop/a", False),
        ("http://shop:8000/a", "https://shop/a", False),
        ("http://shop/a", "https://shop:8443/a", False),
        ("http://shop/a", "http://shop:8000/a", False),
        ("http://shop/a", "https://www.shop/a", False),
        ("https://shop/a", "https://shop.example/a", False),
    ],
)
def test_the_key_goes_where_the_authorization_goes(send, source, target, kept):
    """Of names and ports that a test cannot listen on, so without a network."""
    asked = []

    def answering(request):
        asked.append(request)
        return httpx.Response(200) if len(asked) > 1 else httpx.Response(307, headers={"Location": target})

    headers = {"Idempotency-Key": "mine", "Authorization": "Bearer x"}
    send("POST", source, inner=httpx.MockTransport(answering), headers=headers)
    assert len(asked) == 2
    assert (asked[1].headers["Idempotency-Key"] == "mine") is kept
    assert ("Authorization" in asked[1].headers) is kept


def test_a_transport_in_another_has_a_key_of_its_own():
    inner = IdempotentTransport(header="X-Key", make_key=lambda: "inner")
    outer = IdempotentTransport(inner, make_key=lambda: "outer")
    with (
        Server(OK) as other,
        Server(to(other.url)) as first,
        httpx.Client(transport=outer, follow_redirects=True) as client,
    ):
        client.post(first.url)
        [(_, before, _)], [(_, after, _)] = first.asked, other.asked
        assert (before["idempotency-key"], before["x-key"]) == ("outer", "inner")
        assert {"outer", "inner"} & {after["idempotency-key"], after["x-key"]} == set()
