"""Queues of all kinds that RabbitMQ has: consumed from, or refused with the reason."""

import pytest
from brokers_places import message, new_queue

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
