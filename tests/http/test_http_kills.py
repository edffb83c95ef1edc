"""A server killed in the middle of a request, and started again."""

import sqlite3
import time
from concurrent.futures import ThreadPoolExecutor
from uuid import uuid4

import httpx
import psycopg
import pytest
from http_servers import EMBEDDED, STORES, Shop

from dupeproof import Once
from dupeproof.http import key_for

DURABLE = [
    pytest.param(store, marks=() if store in EMBEDDED else pytest.mark.server(store))
    for store in ("sqlite", "redis", "postgres")
]
LONG = 60


@pytest.fixture
def open_shop(request, tmp_path):
    """Starts a shop that may be killed: `open_shop(server, store)`."""
    shops = []

    def start(server, store, **env):
        shops.append(Shop(tmp_path, server, STORES[store](request, tmp_path), **env))
        return shops[-1]

    yield start
    for shop in shops:
        shop.kill()


def killed_while_handling(shop, key, **request):
    """Send the request, kill the server while it is handled, and start it again."""
    with ThreadPoolExecutor(1) as background:
        lost = background.submit(send, shop, key, **request)
        deadline = time.monotonic() + 20
        while not (shop.journal.exists() and shop.journal.read_bytes()):
            assert time.monotonic() < deadline, "the handler did not begin"
            time.sleep(0.01)
        shop.kill()
        with pytest.raises(httpx.TransportError):
            lost.result()
    shop.start()


def send(shop, key, **request):
    headers = {"X-User": "someone", "Idempotency-Key": key}
    return httpx.post(f"{shop.url}/{request.pop('path', 'orders')}", headers=headers, timeout=30, **request)


def answered(shop, key, **request):
    """The response, as soon as the key is not in progress any more."""
    deadline = time.monotonic() + 20
    while True:
        response = send(shop, key, **request)
        if response.status_code != 409 or response.json()["code"] != "in-progress":
            return response
        assert time.monotonic() < deadline
        time.sleep(0.05)


def runs(shop, name):
    return shop.journal.read_bytes().split(b"\n").count(name.encode())


@pytest.mark.parametrize(
    ("server", "store"),
    [
        ("gunicorn-flask", "sqlite"),
        pytest.param("uvicorn-starlette", "redis", marks=pytest.mark.server("redis")),
        pytest.param("uvicorn-django", "postgres", marks=pytest.mark.server("postgres")),
    ],
)
def test_a_held_key_does_not_run_again(open_shop, server, store):
    shop = open_shop(server, store, SHOP_ON_ERROR="hold")
    key, name = uuid4().hex, uuid4().hex
    request = {"json": {"name": name, "seconds": LONG}}
    killed_while_handling(shop, key, **request)
    response = answered(shop, key, **request)
    assert (response.status_code, response.json()["code"]) == (409, "unresolved")
    with Once(shop.store, namespace="shop") as once:
        assert once.reopen(key_for("someone", key))
    assert runs(shop, name) == 1


@pytest.mark.parametrize("store", DURABLE)
def test_an_abandoned_key_runs_again_when_its_lease_is_over(open_shop, store):
    shop = open_shop("uvicorn-starlette", store, SHOP_SLOW_ONCE="1")
    key, name = uuid4().hex, uuid4().hex
    request = {"json": {"name": name, "seconds": LONG}}
    killed_while_handling(shop, key, **request)
    response = answered(shop, key, **request)
    assert response.status_code == 201
    again = send(shop, key, **request)
    assert again.headers["idempotent-replayed"] == "true"
    assert again.content == response.content
    assert runs(shop, name) == 2


@pytest.mark.parametrize("store", [each for each in DURABLE if each.values != ("redis",)])
def test_work_and_record_in_one_transaction_are_done_once(open_shop, store):
    shop = open_shop("uvicorn-starlette", store)
    key, name = uuid4().hex, uuid4().hex
    request = {"path": "ledger", "params": {"name": name, "seconds": LONG}}
    killed_while_handling(shop, key, **request)
    response = answered(shop, key, **request)
    assert (response.status_code, response.text) == (201, "entered")
    assert response.headers["idempotent-replayed"] == "true"
    assert entries(shop.store, name) == 1
    assert runs(shop, name) == 1


def entries(store, name):
    query = f"SELECT count(*) FROM ledger WHERE name = '{name}'"
    sqlite = store.startswith("sqlite")
    connection = sqlite3.connect(store.removeprefix("sqlite:///")) if sqlite else psycopg.connect(store)
    try:
        return connection.execute(query).fetchone()[0]
    finally:
        connection.close()
