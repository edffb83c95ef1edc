"""What only RabbitMQ has: confirms and returns, heartbeats, alarms, and a time limit for acknowledgements."""

import asyncio
import time
from collections import Counter

import pytest
from brokers_places import RabbitPlace, message, new_queue

from dupeproof import AsyncOnce, ConfigError, Once
from dupeproof.brokers.errors import BrokerUnavailable, NotPublished


@pytest.fixture
def place(rabbitmq_server):
    return RabbitPlace(rabbitmq_server.url)


@pytest.fixture(params=[False, True], ids=["sync", "async"])
def is_async(request):
    return request.param


def publish(place, is_async, *messages, **options):
    publisher = place.publisher(is_async=is_async, **options)
    if not is_async:
        with publisher:
            return publisher.publish(messages)

    async def send():
        async with publisher:
            return await publisher.publish(messages)

    return asyncio.run(send())


def test_an_exchange_that_is_not_there_is_an_error_of_the_publisher(place, is_async):
    with pytest.raises(ConfigError, match="nobody-made-this"):
        publish(place, is_async, message("orders", "m-1"), exchange="nobody-made-this")


def test_a_message_no_queue_is_bound_for_is_unroutable(place, is_async):
    channel = place.channel()
    exchange, queue = new_queue(), new_queue()
    channel.exchange_declare(exchange)
    channel.queue_declare(queue, durable=True)
    channel.queue_bind(queue, exchange, "known")
    results = publish(
        place,
        is_async,
        message("known", "m-1"),
        message("unknown", "m-2"),
        message("known", "m-3"),
        exchange=exchange,
    )
    assert results[0] is results[2] is None
    assert results[1].reason == "unroutable"
    assert exchange in str(results[1])
    assert channel.queue_declare(queue, passive=True).method.message_count == 2
    channel.connection.close()


def test_a_full_queue_refuses_and_says_so(place, is_async):
    channel = place.channel()
    queue = new_queue()
    channel.queue_declare(queue, durable=True, arguments={"x-max-length": 2, "x-overflow": "reject-publish"})
    results = publish(place, is_async, *(message(queue, f"m-{n}") for n in range(5)))
    assert results[:2] == [None, None]
    refused = [each for each in results if each is not None]
    assert len(refused) >= 2
    assert all(isinstance(each, NotPublished) and each.reason == "full" for each in refused)
    assert "full" in str(refused[0])
    channel.connection.close()


@pytest.mark.timeout(180)
def test_heartbeats_and_the_time_limit_for_acknowledgements(own_rabbitmq, run, until, caplog):
    """One server with all its times made short, because it takes long to start."""
    server = own_rabbitmq(settings={"heartbeat": 1, "consumer_timeout": 4_000})
    place = RabbitPlace(server.url)
    queue = new_queue()
    place.declare(queue)

    # A handler that takes longer than two heartbeats keeps its connection, and runs once.
    effects = Counter()

    def slow(message):
        effects[message.id] += 1
        time.sleep(6 if message.id == "too-long" and effects["too-long"] == 1 else 3)

    async def slow_async(message):
        effects[message.id] += 1
        await asyncio.sleep(3)

    for name, handler, once in (
        ("sync", slow, Once("memory://", namespace="a")),
        ("async", slow_async, AsyncOnce("memory://", namespace="b")),
    ):
        running = run(place.consumer(queue, handler, once=once))
        place.publish(message(queue, name))
        until(lambda running=running: running.tally.done == 1, lambda running=running: running.tally)
        running.stop()
        assert running.tally.reconnects == 0
    assert effects == Counter(["sync", "async"])

    # One that takes longer than consumer_timeout has its message taken away; that is explained, and the effect is one.
    once = Once("memory://", namespace="c")
    running = run(place.consumer(queue, slow, once=once, backoff="100ms"))
    place.publish(message(queue, "too-long"))
    until(lambda: "consumer_timeout" in caplog.text, lambda: caplog.text)
    until(lambda: running.tally.duplicates == 1, lambda: running.tally)
    running.stop()
    assert effects["too-long"] == 1
    assert running.tally.redelivered >= 1


def test_a_broker_that_is_nearly_full_blocks_publishers(own_rabbitmq):
    place = RabbitPlace(own_rabbitmq(settings={"vm_memory_high_watermark.absolute": "1MB"}).url)
    queue = new_queue()
    place.declare(queue)
    for is_async in (False, True):
        with pytest.raises(BrokerUnavailable, match=r"nearly full|blocked"):
            publish(place, is_async, message(queue, "m-1"), timeout="2s")
