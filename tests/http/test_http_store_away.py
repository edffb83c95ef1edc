"""A store that is away while handlers run: what was done is recorded when it is back in time, and if not, that is said."""

import threading
from concurrent.futures import ThreadPoolExecutor

import httpx
import pytest
from http_servers import Shop

from dupeproof.keys import new_id
from support.workers import wait_for

PATIENCE = 60


def send(shop, name, seconds=0.3):
    headers = {"X-User": "someone", "Idempotency-Key": name}
    return httpx.post(
        f"{shop.url}/orders", headers=headers, json={"name": name, "seconds": seconds}, timeout=PATIENCE
    )


def runs(shop, name):
    return int(httpx.get(f"{shop.url}/runs/{name}", timeout=PATIENCE).text)


@pytest.fixture
def shop_on(tmp_path):
    """`shop_on(server, store)`: a shop that runs, ended with the test."""
    started = []

    def start(server, url, **env):
        shop = Shop(tmp_path, server, f"{url}?timeout=1s", **{"SHOP_LEASE": "15", **env})
        started.append(shop)
        shop.start()
        return shop

    yield start
    for shop in started:
        shop.kill()


def away(store, how, seconds):
    """From now on, for that long; answers when it is back."""
    if how == "frozen":
        store.pause()
        back = store.resume
    else:
        store.kill()
        back = store.start
    done = threading.Event()

    def come_back():
        back()
        done.set()

    threading.Timer(seconds, come_back).start()
    return done


@pytest.mark.parametrize("server", ["uvicorn-starlette", "gunicorn-flask", "uvicorn-django"])
@pytest.mark.parametrize(
    ("how", "seconds"), [("frozen", 0.5), ("frozen", 2), ("frozen", 10), ("restarted", 0.5), ("restarted", 2)]
)
def test_work_done_is_recorded_when_the_store_is_back(own_redis, shop_on, server, how, seconds):
    redis = own_redis(appendonly=True)
    shop = shop_on(server, redis.url)
    name = new_id()
    assert send(shop, new_id()).status_code == 201
    with ThreadPoolExecutor(1) as background:
        first = background.submit(send, shop, name, 0.3)
        wait_for(lambda: runs(shop, name) == 1, what="the handler to run")
        done = away(redis, how, seconds)
        answer = first.result()
    assert answer.status_code == 201
    assert "idempotency-stored" not in answer.headers
    assert done.wait(PATIENCE)
    again = send(shop, name)
    assert (again.headers["idempotent-replayed"], again.content) == ("true", answer.content)
    assert runs(shop, name) == 1


@pytest.mark.parametrize("server", ["uvicorn-starlette", "gunicorn-flask"])
def test_a_store_that_stays_away_for_longer_than_the_lease_costs_the_record_and_that_is_said(
    own_redis, shop_on, server
):
    redis = own_redis(appendonly=True)
    shop = shop_on(server, redis.url, SHOP_LEASE="2")
    name = new_id()
    assert send(shop, new_id()).status_code == 201
    with ThreadPoolExecutor(1) as background:
        first = background.submit(send, shop, name, 0.3)
        wait_for(lambda: runs(shop, name) == 1, what="the handler to run")
        redis.pause()
        try:
            answer = first.result()
            meanwhile = send(shop, name)
        finally:
            redis.resume()
    assert (answer.status_code, answer.headers["idempotency-stored"]) == (201, "false")
    assert (meanwhile.status_code, meanwhile.json()["code"]) == (503, "store-unavailable")
    assert runs(shop, name) == 1
