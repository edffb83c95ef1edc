"""How a consumer is: its health for probes, and how many messages wait at the broker."""

import json
import urllib.error
import urllib.request

import pytest
from brokers_places import message
from prometheus_client import CollectorRegistry

from dupeproof import AsyncOnce, Once
from dupeproof.brokers import consumer as runner
from dupeproof.brokers import consumer_async as async_runner
from dupeproof.brokers.health import serve_health
from dupeproof.core.events import Kind
from dupeproof.metrics.prometheus import PrometheusListener


@pytest.fixture(autouse=True)
def often(monkeypatch):
    for module in (runner, async_runner):
        monkeypatch.setattr(module, "BETWEEN_REPORTS", 0.05)


@pytest.fixture
def guard(queue, is_async):
    return (AsyncOnce if is_async else Once)("memory://", namespace=queue)


@pytest.fixture
def slow(is_async):
    """A handler that waits until it is let go."""
    import asyncio
    import threading

    gate = threading.Event()

    def work(message):
        gate.wait(30)

    async def work_async(message):
        await asyncio.to_thread(gate.wait, 30)

    return (work_async if is_async else work), gate


def test_the_lag_is_told_to_listeners_by_group_and_queue(place, queue, guard, slow, run, until, is_async):
    work, gate = slow
    seen: list = []
    registry = CollectorRegistry()
    assert not any(place.publish(*(message(queue, f"m-{n}", key="k") for n in range(300)), is_async=is_async))
    listeners = [seen.append, PrometheusListener(registry)]
    running = run(place.consumer(queue, work, once=guard, batch=1, events=listeners))
    lags = lambda: [each.count for each in seen if each.kind is Kind.LAG]
    until(lambda: any(lags()) or running.ended, lambda: (seen, running.error))
    assert 0 < max(lags()) <= 300
    assert running.consumer.health().ok
    gate.set()
    until(lambda: running.tally.done == 300, lambda: running.tally)
    until(lambda: lags()[-1] == 0, lags)
    [event] = {(each.namespace, each.name) for each in seen if each.kind is Kind.LAG}
    assert event == (queue, queue)
    labels = {"namespace": queue, "name": queue}
    assert registry.get_sample_value("dupeproof_consumer_lag", labels) == 0
    running.stop()


def test_a_consumer_says_how_it_is(place, queue, guard, slow, run, until):
    work, gate = slow
    gate.set()
    consumer = place.consumer(queue, work, once=guard)
    assert (consumer.health().ok, consumer.health().trouble) == (False, "it was not started")
    running = run(consumer)
    until(lambda: consumer.health().ok or running.ended, lambda: running.error)
    running.stop()
    assert (consumer.health().ok, consumer.health().trouble) == (False, "it has ended")


@pytest.mark.server("nats")
def test_a_broker_that_is_away_shows_in_the_probe_and_so_does_its_return(run, until):
    from brokers_places import NatsPlace

    from dupeproof_lab.servers import Nats

    with Nats() as server:
        place = NatsPlace(server.url)
        place.declare("orders-away")
        consumer = place.consumer(
            "orders-away", print, once=Once("memory://"), backoff="50ms", max_backoff="50ms"
        )
        running = run(consumer)
        with serve_health(consumer, port=0) as port:

            def asked() -> tuple[int, dict]:
                try:
                    with urllib.request.urlopen(f"http://127.0.0.1:{port}/healthz", timeout=5) as answer:
                        return answer.status, json.load(answer)
                except urllib.error.HTTPError as exc:
                    return exc.code, json.load(exc)

            until(lambda: asked()[0] == 200, asked)
            well = (200, {"ok": True, "trouble": "", "in_hand": 0, "lag": 0})
            until(lambda: asked() == well, asked)
            server.kill()
            until(lambda: asked()[0] == 503, asked)
            assert "NATS" in asked()[1]["trouble"]
            assert server.url.split("@")[0].split(":")[-1] not in asked()[1]["trouble"]
            server.start()
            until(lambda: asked()[0] == 200, asked)
        running.stop()
