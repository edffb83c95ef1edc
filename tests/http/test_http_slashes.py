"""A missing slash at the end of an address: the client is sent on, one order is made, and its retry is replayed."""

import asyncio
import json
import subprocess
import uuid
from urllib.parse import urljoin

import httpx
import pytest
import requests
from http_servers import EMBEDDED, SLASHES, on

from dupeproof.http.client import AsyncIdempotentTransport, IdempotentTransport

FOLLOWED = {"fastapi": 307, "flask": 308}
"""What frameworks say so that clients follow with method and body. Django says 301, of which they make a GET."""


def by_httpx(url, headers, order):
    response = httpx.post(url, headers=headers, json=order, follow_redirects=True)
    return (
        [each.status_code for each in response.history],
        response.status_code,
        response.headers,
        response.content,
    )


def by_requests(url, headers, order):
    response = requests.post(url, headers=headers, json=order, timeout=20)
    return (
        [each.status_code for each in response.history],
        response.status_code,
        response.headers,
        response.content,
    )


def by_our_transport(url, headers, order):
    with httpx.Client(transport=IdempotentTransport(), follow_redirects=True) as client:
        response = client.post(url, headers=headers, json=order)
    return (
        [each.status_code for each in response.history],
        response.status_code,
        response.headers,
        response.content,
    )


def by_our_async_transport(url, headers, order):
    async def main():
        async with httpx.AsyncClient(transport=AsyncIdempotentTransport(), follow_redirects=True) as client:
            return await client.post(url, headers=headers, json=order)

    response = asyncio.run(main())
    return (
        [each.status_code for each in response.history],
        response.status_code,
        response.headers,
        response.content,
    )


def by_curl(curl, *more):
    def ask(url, headers, order):
        given = [word for name, value in headers.items() for word in ("--header", f"{name}: {value}")]
        ran = subprocess.run(
            [
                curl,
                "--silent",
                "--show-error",
                "--include",
                "--location",
                *more,
                *given,
                "--json",
                json.dumps(order),
                url,
            ],
            capture_output=True,
            check=True,
            timeout=20,
        )
        statuses, rest = [], ran.stdout
        while rest.startswith(b"HTTP/"):
            head, _, rest = rest.partition(b"\r\n\r\n")
            status, *lines = head.decode().split("\r\n")
            statuses.append(int(status.split()[1]))
            found = httpx.Headers([tuple(line.split(": ", 1)) for line in lines])
        return statuses[:-1], statuses[-1], found, rest

    return ask


def by_hand(url, headers, order):
    """As a client of an app does that moves on with 301: the same request, with the same key, to where it was sent."""
    history = []
    with httpx.Client(transport=IdempotentTransport()) as client:
        while True:
            response = client.post(url, headers=headers, json=order)
            if not response.has_redirect_location:
                return history, response.status_code, response.headers, response.content
            history.append(response.status_code)
            url = urljoin(url, response.headers["Location"])


CLIENTS = {
    "httpx": by_httpx,
    "requests": by_requests,
    "our transport": by_our_transport,
    "our async transport": by_our_async_transport,
    "curl": by_curl,
}


@pytest.fixture
def name():
    return str(uuid.uuid4())


def check(ask, shop, name, moved):
    """Two requests of a client: one order."""
    headers = {"Idempotency-Key": name, "X-User": "ann"}
    first, retry = (ask(f"{shop.url}/orders", headers, {"name": name}) for _ in range(2))
    assert (first[0], retry[0]) == ([moved], [])  # the guard knows the order before the app sends anyone on
    assert (first[1], json.loads(first[3])["run"]) == (201, 1)
    assert (retry[1], retry[3]) == (first[1], first[3])
    assert "Idempotent-Replayed" not in first[2]
    assert retry[2]["Idempotent-Replayed"] == "true"
    assert shop.journal.read_text().split().count(name) == 1


@on(servers=FOLLOWED, stores=EMBEDDED[:1])
@pytest.mark.parametrize(
    "client",
    [pytest.param(each, marks=[pytest.mark.tool("curl")] if each == "curl" else []) for each in CLIENTS],
)
def test_a_client_that_follows_makes_one_order(request, shop, name, client):
    ask = CLIENTS[client]
    ask = by_curl(request.getfixturevalue("curl")) if client == "curl" else ask
    check(ask, shop, name, FOLLOWED[request.node.callspec.params["shop"][0]])


DJANGO = [each for each in SLASHES if each.startswith("django")]


@on(servers=DJANGO, stores=EMBEDDED[:1])
def test_who_follows_by_hand_makes_one_order(shop, name):
    check(by_hand, shop, name, 301)


@on(servers=DJANGO, stores=EMBEDDED[:1])
def test_curl_that_is_told_to_stay_with_post_makes_one_order(shop, name, curl):
    check(by_curl(curl, "--post301"), shop, name, 301)


@on(servers=DJANGO, stores=EMBEDDED[:1])
def test_a_client_that_makes_a_get_of_it_orders_nothing_and_may_still_use_its_key(shop, name):
    headers = {"Idempotency-Key": name, "X-User": "ann"}
    with httpx.Client(transport=IdempotentTransport(), follow_redirects=True) as client:
        response = client.post(f"{shop.url}/orders", headers=headers, json={"name": name})
        assert response.request.method == "GET"
        assert "Idempotency-Key" not in response.request.headers
    check(by_hand, shop, name, 301)
