"""Servers killed wherever a request may be, and started again."""

import sqlite3
import time
from concurrent.futures import ThreadPoolExecutor
from uuid import uuid4

import httpx
import psycopg
import pytest
from http_servers import EMBEDDED, STORES, Shop

from dupeproof_lab.servers.base import wait_until

LONG = 60
LIVES = [
    ("after-claim:2", ["in the handler", "after-claim"]),
    ("after-effect", ["after-effect"]),
    ("after-finish", ["after-finish"]),
]
"""The lives of a server: the crash point at which it kills itself, and the requests that die with it, in their order."""
IN_THE_END = {
    "after-claim": {"reopen": (1, "answered"), "hold": (0, "unresolved")},
    "in the handler": {"reopen": (2, "answered"), "hold": (1, "unresolved")},
    "after-effect": {"reopen": (2, "answered"), "hold": (1, "unresolved")},
    "after-finish": {"reopen": (1, "replayed"), "hold": (1, "replayed")},
}
"""How often a request has run that died there, and what its retry gets, by what is done with keys of unknown outcome."""


def durable(store, *others):
    return pytest.param(*others, store, marks=() if store in EMBEDDED else pytest.mark.server(store))


GRID = [
    durable(store, ("reopen", "hold")[(row + column) % 2], server)
    for row, server in enumerate(["uvicorn-starlette", "gunicorn-flask", "gunicorn-django", "uvicorn-django"])
    for column, store in enumerate(["sqlite", "redis", "postgres"])
]


@pytest.fixture
def shop_of(request, tmp_path):
    """A shop to be started and killed: `shop_of(server, store)`."""
    shops = []

    def make(server, store, **env):
        shops.append(Shop(tmp_path, server, STORES[store](request, tmp_path), **env))
        return shops[-1]

    yield make
    for shop in shops:
        shop.kill()


@pytest.fixture
def background():
    with ThreadPoolExecutor(2) as threads:
        yield threads


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
    return shop.journal.read_bytes().split(b"\n").count(name.encode()) if shop.journal.exists() else 0


def until_begun(shop, name):
    wait_until(lambda: runs(shop, name) > 0, what="the handler to begin")


def outcome(response):
    if response.status_code == 409:
        return response.json()["code"]
    assert response.status_code == 201
    return "replayed" if "idempotent-replayed" in response.headers else "answered"


@pytest.mark.parametrize(("on_error", "server", "store"), GRID)
def test_wherever_a_server_is_killed_its_requests_end_as_promised(
    shop_of, background, on_error, server, store
):
    shop = shop_of(server, store, SHOP_ON_ERROR=on_error, SHOP_SLOW_ONCE="1")
    names = {where: uuid4().hex for where in IN_THE_END}
    orders = {where: {"json": {"name": name}} for where, name in names.items()}
    orders["in the handler"]["json"]["seconds"] = LONG
    for point, dying in LIVES:
        shop.start(DUPEPROOF_CRASH_AT=point)
        lost = []
        for where in dying:
            lost.append(background.submit(send, shop, names[where], **orders[where]))
            if where == "in the handler":
                until_begun(shop, names[where])
        for each in lost:
            with pytest.raises(httpx.TransportError):
                each.result()
        shop.kill()
    shop.start()
    responses = {where: answered(shop, names[where], **orders[where]) for where in IN_THE_END}
    assert {where: (runs(shop, names[where]), outcome(responses[where])) for where in IN_THE_END} == {
        where: by_policy[on_error] for where, by_policy in IN_THE_END.items()
    }
    for where, response in responses.items():
        again = send(shop, names[where], **orders[where])
        assert outcome(again) == ("replayed" if response.status_code == 201 else "unresolved")
        assert again.content == response.content


@pytest.mark.parametrize("store", [durable("sqlite"), durable("postgres")])
def test_work_and_record_in_one_transaction_are_done_once(shop_of, background, store):
    shop = shop_of("uvicorn-starlette", store)
    shop.start()
    key, name = uuid4().hex, uuid4().hex
    request = {"path": "ledger", "params": {"name": name, "seconds": LONG}}
    lost = background.submit(send, shop, key, **request)
    until_begun(shop, name)
    shop.kill()
    with pytest.raises(httpx.TransportError):
        lost.result()
    shop.start()
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
