"""Handlers that take their time: duplicates meanwhile, leases that are shorter, clients that leave."""

import time
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from typing import Any

import httpx
import pytest

from dupeproof.testing.http.base import KEY, REPLAYED, HttpCase, answered, new_name

_PATIENCE = 20.0


def until(check: Callable[[], bool], what: str) -> None:
    deadline = time.monotonic() + _PATIENCE
    while not check():
        assert time.monotonic() < deadline, f"waited {_PATIENCE:g} s for {what}"
        time.sleep(0.02)


class HttpSlowConformance(HttpCase):
    lease = 1.0
    """Seconds, as your app has it. Choose a short one for these tests."""

    def slow_order(self, name: str, seconds: float) -> dict[str, Any]:
        """A request whose handler takes that long, after its effect."""
        return {"method": "POST", "url": "/orders", "json": {"name": name, "seconds": seconds}}

    def test_a_handler_slower_than_its_lease_keeps_its_key(self, client: httpx.Client) -> None:
        key, name, other = new_name(), new_name(), new_name()
        request = self.slow_order(name, self.lease * 1.8)
        with ThreadPoolExecutor(1) as background:
            first = background.submit(self.send, client, key, request)
            until(lambda: self.runs(client, name) == 1, "the handler to begin")
            # What is another request is so whether or not the first is under way.
            assert answered(self.send(client, key, self.order(other)), self.mismatch_status, "key-reused")
            while not first.done():
                again = self.send(client, key, request)
                assert REPLAYED in again.headers or answered(again, 409, "in-progress")
                time.sleep(0.1)
        assert first.result().is_success
        assert self.send(client, key, request).headers[REPLAYED] == "true"
        assert self.runs(client, name) == 1

    def test_a_client_that_leaves_and_comes_back_gets_the_response(self, client: httpx.Client) -> None:
        key, name = new_name(), new_name()
        request = self.slow_order(name, self.lease / 2)
        with pytest.raises(httpx.ReadTimeout):
            client.request(
                **request, headers={**self.user("someone"), KEY: key}, timeout=httpx.Timeout(20, read=0.1)
            )
        until(lambda: self.runs(client, name) == 1, "the handler to begin")
        until(lambda: self.send(client, key, request).status_code != 409, "the handler to end")
        assert self.send(client, key, request).headers[REPLAYED] == "true"
        assert self.runs(client, name) == 1
