"""Brokers that take a message back from a consumer they do not hear of: not while it works, and soon when it is gone."""

import asyncio
import time

import pytest
from brokers_ledgers import PostgresLedger
from brokers_places import PLACES, SERVERS, RedisStreamPlace, message, new_queue

from dupeproof import AsyncOnce, Once

TAKING = [pytest.param(name, marks=pytest.mark.server(SERVERS[name])) for name in ("redis_streams", "nats")]


@pytest.fixture(params=[False, True], ids=["sync", "async"])
def is_async(request):
    return request.param


@pytest.mark.parametrize("name", TAKING)
def test_a_handler_that_takes_long_keeps_its_message(request, name, is_async, run, until, tmp_path):
    place = PLACES[name](request.getfixturevalue(f"{SERVERS[name]}_server").url)
    queue = new_queue()
    place.declare(queue)
    effects = []

    def slow(message):
        effects.append(message.id)
        time.sleep(3)  # three times what the broker waits for a sign of life

    async def slow_async(message):
        effects.append(message.id)
        await asyncio.sleep(3)

    once = (AsyncOnce if is_async else Once)(f"sqlite:///{tmp_path}/claims.db", namespace=queue)
    place.publish(message(queue, "m-1"))
    both = [run(place.consumer(queue, slow_async if is_async else slow, once=once)) for _ in range(2)]
    until(lambda: sum(each.tally.done for each in both) == 1, lambda: [each.tally for each in both])
    for each in both:
        each.stop()
    assert effects == ["m-1"]
    assert [each.tally.redelivered for each in both] == [0, 0]


def test_an_entry_trimmed_before_it_was_done_is_reported(redis_server, run, until, caplog):
    place = RedisStreamPlace(redis_server.url)
    queue = new_queue()
    place.declare(queue)
    place.publish(message(queue, "trimmed"), message(queue, "kept"))
    with place.client() as client:
        client.xgroup_create(queue, "billing", "0")
        client.xreadgroup("billing", "one-that-died", {queue: ">"})
        client.xtrim(queue, maxlen=1, approximate=False)
    seen = []
    running = run(place.consumer(queue, seen.append, once=Once("memory://", namespace="billing")))
    until(lambda: running.tally.done == 1, lambda: running.tally)
    until(lambda: "1 entries" in caplog.text, lambda: caplog.text)
    running.stop()
    assert [each.id for each in seen] == ["kept"]
    assert seen[0].attempt == 2
    assert running.consumer._source.trimmed == 1


@pytest.mark.server("postgres")
def test_an_acknowledgement_that_comes_late_is_harmless(redis_server, postgres_module_url, run, until):
    """One consumer is heard of no more while it works; another takes over; then the first one ends, and acknowledges."""
    place = RedisStreamPlace(redis_server.url)
    ledger = PostgresLedger(postgres_module_url)
    ledger.empty()
    queue = new_queue()
    place.declare(queue)
    place.publish(message(queue, "m-1"))
    began, pace = [], {"first": 2.5}

    def handle(message, connection):
        began.append(message.id)
        ledger.write(message, connection)
        time.sleep(pace.pop("first", 0))

    first_consumer = place.consumer(queue, handle, inbox=ledger.inbox(is_async=False, group=queue))
    first_consumer._source.keep = lambda deliveries: None
    first = run(first_consumer)
    until(lambda: began)
    second = run(place.consumer(queue, handle, inbox=ledger.inbox(is_async=False, group=queue)))
    until(
        lambda: sum(each.tally.done + each.tally.duplicates for each in (first, second)) >= 2,
        lambda: (first.tally, second.tally),
    )
    first.stop()
    second.stop()
    assert ledger.counts() == {"m-1": 1}
    assert first.tally.redelivered + second.tally.redelivered >= 1
    with place.client() as client:
        assert client.xpending(queue, queue)["pending"] == 0
