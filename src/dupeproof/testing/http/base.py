"""What the parts of the HTTP suite share: the app under test and short ways to speak to it."""

import ssl
from collections.abc import Iterator
from typing import Any
from uuid import uuid4

import httpx
import pytest

KEY = "Idempotency-Key"
REPLAYED = "Idempotent-Replayed"
STORED = "Idempotency-Stored"
_TLS = ssl.create_default_context()
"""One for all tests: making it takes longer than most of them."""


def new_name() -> str:
    return uuid4().hex


def answered(response: httpx.Response, status: int, code: str) -> bool:
    """Whether it is this problem, as such."""
    assert response.status_code == status, response.text
    assert response.headers["content-type"] == "application/problem+json"
    body = response.json()
    assert body["status"] == status
    assert body["type"].endswith(code)
    return bool(body["code"] == code)


class HttpCase:
    """Override `url`, and what your app wants to be asked."""

    mismatch_status = 422
    """Of a key with another request; 400 with `style="stripe"`."""

    @pytest.fixture
    def url(self) -> str:
        raise NotImplementedError("return the address of your running app from the fixture url")

    @pytest.fixture
    def client(self, url: str) -> Iterator[httpx.Client]:
        limits = httpx.Limits(max_connections=None, max_keepalive_connections=0)
        with httpx.Client(base_url=url, timeout=60, limits=limits, trust_env=False, verify=_TLS) as client:
            yield client

    def order(self, name: str) -> dict[str, Any]:
        """The request to guard, as arguments of `httpx.Client.request`; its effect is known by this name."""
        return {"method": "POST", "url": "/orders", "json": {"name": name}}

    def runs(self, client: httpx.Client, name: str) -> int:
        """How often the handler ran for the order of this name."""
        return int(client.get(f"/runs/{name}").text)

    def user(self, name: str) -> dict[str, str]:
        """The headers by which the app knows this user."""
        return {"X-User": name}

    def send(self, client: httpx.Client, key: str, request: dict[str, Any], **headers: str) -> httpx.Response:
        return client.request(**request, headers={**self.user("someone"), KEY: key, **headers})
