"""A topic of Kafka limits the size of batches, which the client makes of messages that are small enough."""

import pytest
from brokers_places import KafkaPlace, message, new_queue
from confluent_kafka import OFFSET_BEGINNING, Consumer, TopicPartition
from confluent_kafka.admin import AdminClient, NewTopic

from dupeproof.brokers.errors import NotPublished

LIMIT = 10_000


@pytest.fixture
def place(kafka_server):
    return KafkaPlace(kafka_server.url)


@pytest.fixture
def narrow_topic(place):
    name = new_queue()
    admin = AdminClient({"bootstrap.servers": place.url})
    admin.create_topics([NewTopic(name, 1, 1, config={"max.message.bytes": str(LIMIT)})])[name].result(20)
    return name


def ids_in(place, topic: str, count: int) -> list[str]:
    reader = Consumer(
        {"bootstrap.servers": place.url, "group.id": new_queue(), "auto.offset.reset": "earliest"}
    )
    reader.assign([TopicPartition(topic, 0, OFFSET_BEGINNING)])
    found: list[str] = []
    for _ in range(100):
        found += [dict(each.headers())["message-id"].decode() for each in reader.consume(100, 0.2)]
        if len(found) >= count:
            break
    found += [dict(each.headers())["message-id"].decode() for each in reader.consume(100, 0.2)]
    reader.close()
    return found


def test_of_a_batch_too_large_for_the_topic_only_what_is_too_large_alone_is_blamed(
    place, narrow_topic, is_async
):
    small = [message(narrow_topic, f"m-{n}", b"x" * 1_000) for n in range(40)]
    large = message(narrow_topic, "large", b"x" * (LIMIT + 1))
    results = place.publish(*small[:20], large, *small[20:], is_async=is_async)
    [fault] = [each for each in results if each is not None]
    assert results[20] is fault
    assert isinstance(fault, NotPublished)
    assert fault.reason == "unfit"
    assert sorted(ids_in(place, narrow_topic, 40)) == sorted(each.id for each in small)
