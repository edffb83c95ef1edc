"""Queues of all kinds that RabbitMQ has: consumed from, or refused with the reason."""

import pytest
from brokers_places import RabbitPlace, message, new_queue
from test_rabbitmq_alarm import control

from dupeproof import AsyncOnce, ConfigError, Once

STREAMS = [
    {"x-queue-type": "stream"},
    {"x-queue-type": "stream", "x-max-age": "1h"},
    {"x-queue-type": "stream", "x-max-length-bytes": 10_000_000, "x-stream-max-segment-size-bytes": 100_000},
]
QUEUES = [
    {},
    {"x-queue-type": "classic", "x-max-length-bytes": 10_000_000},
    {"x-queue-type": "quorum"},
    {"x-queue-type": "quorum", "x-max-length-bytes": 10_000_000, "x-delivery-limit": 7},
]


@pytest.fixture
def consumer(rabbit, is_async):
    def make(queue: str, found: list):
        async def write(message):
            found.append(message.id)

        once = (AsyncOnce if is_async else Once)("memory://", namespace=queue)
        return rabbit.consumer(queue, write if is_async else lambda each: found.append(each.id), once=once)

    return make


@pytest.mark.parametrize("arguments", STREAMS)
def test_a_stream_is_refused_with_the_reason(channel, arguments, consumer, run, until):
    """It would hand out only what is published while somebody consumes."""
    queue = new_queue()
    channel.queue_declare(queue, durable=True, arguments=arguments)
    running = run(consumer(queue, []))
    until(lambda: running.ended)
    with pytest.raises(ConfigError, match=r"is a stream.*never be worked on"):
        running.stop()


@pytest.mark.parametrize("arguments", QUEUES)
def test_what_was_published_before_is_consumed_from_other_kinds(
    rabbit, channel, arguments, consumer, run, until
):
    queue, found = new_queue(), []
    channel.queue_declare(queue, durable=True, arguments=arguments)
    rabbit.publish(message(queue, "m-1"))
    running = run(consumer(queue, found))
    until(lambda: running.tally.done == 1 or running.ended, lambda: (running.tally, running.error))
    running.stop()
    assert found == ["m-1"]


@pytest.mark.timeout(180)
def test_a_stream_is_told_also_to_a_user_who_may_configure_nothing(own_rabbitmq, run, until):
    """One server for both kinds of consumers, because it takes long to start."""
    server = own_rabbitmq()
    control(server, "add_user", "reader", "secret")
    control(server, "set_permissions", "reader", "^$", ".*", ".*")
    owner = RabbitPlace(server.url)
    reader = RabbitPlace(f"amqp://reader:secret@{server.url.partition('@')[2]}")
    channel = owner.channel()

    def start(queue, is_async, found):
        async def write(message):
            found.append(message.id)

        once = (AsyncOnce if is_async else Once)("memory://", namespace=f"{queue}-{is_async}")
        handler = write if is_async else lambda each: found.append(each.id)
        return run(reader.consumer(queue, handler, once=once, create=False, backoff="50ms"))

    for is_async in (False, True):
        for arguments in QUEUES:
            queue, found = new_queue(), []
            channel.queue_declare(queue, durable=True, arguments=arguments)
            owner.publish(message(queue, "m-1"))
            running = start(queue, is_async, found)
            until(lambda: running.tally.done == 1 or running.ended, lambda: running.error)  # noqa: B023
            running.stop()
            assert found == ["m-1"]
            assert running.tally.redelivered == 0
        for arguments in STREAMS:
            queue, found = new_queue(), []
            channel.queue_declare(queue, durable=True, arguments=arguments)
            running = start(queue, is_async, found)
            until(lambda: running.ended, lambda: (running.tally, found))  # noqa: B023
            with pytest.raises(ConfigError, match="is a stream"):
                running.stop()
    channel.connection.close()
