"""The examples start with one command, and do what their page says."""

import contextlib
import os
import sqlite3
import subprocess
import sys
from pathlib import Path

import httpx
import pytest
from http_examples import started

from dupeproof.testing.http import HttpConformance

HERE = Path(__file__).parent
ADA = {"Authorization": "Bearer ada"}


@pytest.fixture
def url(request, tmp_path):
    with started(f"{request.param}_orders.py", tmp_path) as url:
        yield url


@pytest.mark.parametrize("url", ["fastapi", "flask", "django"], indirect=True)
def test_an_order_is_taken_once(url):
    def order(amount, **headers):
        return httpx.post(f"{url}/orders", json={"item": "tea", "amount": amount}, headers={**ADA, **headers})

    first, again = [order(2, **{"Idempotency-Key": "1"}) for _ in range(2)]
    assert (first.status_code, first.json()) == (201, {"id": 1, "item": "tea", "amount": 2})
    assert again.content == first.content
    assert again.headers["idempotent-replayed"] == "true"
    assert order(3, **{"Idempotency-Key": "1"}).status_code == 422
    assert [order(2).json()["id"] for _ in range(2)] == [2, 3]


@pytest.fixture(scope="module")
def example(tmp_path_factory):
    folder = tmp_path_factory.mktemp("example")
    with started("fastapi_orders.py", folder) as url:
        yield url, folder / "orders.db"


class TestExampleByTheSuite(HttpConformance):
    """As somebody would who has an app with users of its own."""

    @pytest.fixture
    def url(self, example):
        url, self.database = example
        return url

    def user(self, name):
        return {"Authorization": f"Bearer {name}"}

    def order(self, name):
        return {"method": "POST", "url": "/orders", "json": {"item": name, "amount": 1}}

    def runs(self, client, name):
        with contextlib.closing(sqlite3.connect(self.database)) as connection:
            return connection.execute("SELECT count(*) FROM orders WHERE item = ?", (name,)).fetchone()[0]


@pytest.mark.parametrize("url", ["fastapi"], indirect=True)
def test_schemathesis_finds_nothing(url, tmp_path):
    command = [
        Path(sys.executable).with_name("schemathesis"), "run", f"{url}/openapi.json", "--header", "Authorization: Bearer ada",
        "--max-examples", "15", "--request-timeout", "20", "--seed", "1", "--no-color",
    ]  # fmt: skip
    env = {**os.environ, "PYTHONPATH": str(HERE), "SCHEMATHESIS_HOOKS": "schemathesis_hooks"}
    done = subprocess.run(
        command, check=False, capture_output=True, text=True, cwd=tmp_path, timeout=100, env=env
    )
    assert done.returncode == 0, done.stdout[-5000:] + done.stderr[-2000:]
    assert "No issues found" in done.stdout
