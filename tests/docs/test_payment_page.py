"""The page about payments keeps what it says: killed at every point, and under a short torture."""

import pytest
from payment_provider import MOODS, Provider
from payment_story import LATE, Shop, faults, torture

from dupeproof_lab.servers.base import wait_until

pytestmark = pytest.mark.server("rabbitmq", "postgres")
OF_OURS = ["after-mark", "after-claim", "after-effect", "after-finish", "before-commit:2", "after-commit:2"]
OF_THE_PROVIDER = ["before the charge", "after the charge", "at the invoice"]


@pytest.fixture
def shop(tmp_path, rabbitmq_server, postgres_url):
    provider = Provider(late=LATE).start()
    urls = {"database": postgres_url, "store": postgres_url, "broker": rabbitmq_server.url}
    shop = Shop(tmp_path, urls, provider)
    yield shop
    shop.stop()
    provider.stop()


def killed_at(shop, point):
    if point in OF_OURS:
        killed = shop.start(DUPEPROOF_CRASH_AT=point)
    else:
        killed = shop.start()

        def strike(moment, _, worker):
            if moment == point and worker == killed.pid:
                killed.kill()
                killed.wait()

        shop.provider.strike = strike
        if point == "before the charge":
            shop.provider.next_answers("dropped")
    shop.send(range(1))
    assert killed.wait(60) == -9


@pytest.mark.parametrize("point", OF_OURS + OF_THE_PROVIDER)
def test_killed_at_any_point_an_order_is_charged_once_and_announced_once(shop, point):
    killed_at(shop, point)
    shop.start()
    wait_until(lambda: shop.rows() == {"paid": 1}, seconds=60, what="the payment")
    assert shop.provider.charges == {"o-0": 1}
    assert [*shop.provider.invoices.values()] == [1]
    assert shop.query("SELECT count(*) FROM dupeproof_outbox") == [(1,)]
    assert shop.held() == {}


@pytest.mark.parametrize("store", ["postgres", "redis"])
@pytest.mark.parametrize("lookup", [True, False])
def test_a_short_torture(tmp_path, rabbitmq_server, postgres_url, redis_url, store, lookup):
    provider = Provider(7, LATE, MOODS).start()
    urls = {
        "database": postgres_url,
        "store": postgres_url if store == "postgres" else redis_url,
        "broker": rabbitmq_server.url,
    }
    shop = Shop(tmp_path, urls, provider, lookup=lookup)
    try:
        found = torture(shop, orders=60, kills=3, lookup=lookup, workers=2, seed=7, patience=80)
    finally:
        shop.stop()
        provider.stop()
    assert faults(found, lookup=lookup) == [], found
    assert sum(found["kills"].values()) == 3
    assert found["paid"] > 20
