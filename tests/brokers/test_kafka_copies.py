"""On Kafka, copies are whole: dead letters and what a transformer passes on are byte by byte what came, with our headers after it."""

from datetime import UTC, datetime

import pytest
from brokers_places import KafkaPlace, new_queue

from dupeproof import Once
from dupeproof.brokers.base import UNGUARDED, Reject
from dupeproof.brokers.kafka import KafkaPublisher, Transformer, forward
from dupeproof.errors import ConfigError
from dupeproof.outbox import Message

KEY = b"\xff\x00key"
HEADERS = [
    ("message-id", b"m-1"),
    ("message-type", b"placed"),
    ("trace", b"\xff\xfe"),
    ("nothing", None),
    ("empty", b""),
    ("hop", b"one"),
    ("content-type", b"application/avro"),
    ("correlation_id", b"c-1"),
    ("hop", b"two"),
]
WHEN = 1_700_000_000_123
QUICK = {"session.timeout.ms": 2_000, "heartbeat.interval.ms": 500}


@pytest.fixture
def place(kafka_server):
    return KafkaPlace(kafka_server.url)


@pytest.fixture
def topic(place):
    name = new_queue()
    place.declare(name, 1)
    return name


@pytest.fixture(params=[None, b"", b"\x00\xff"], ids=["tombstone", "empty", "bytes"])
def value(request, place, topic):
    place.send(topic, request.param, key=KEY, headers=HEADERS, timestamp=WHEN)
    return request.param


def copy_of(place, topic: str):
    [found] = place.read(topic, 1)
    return found.value(), found.key(), found.headers()


def reject(message, *_):
    raise Reject("never")


async def reject_async(message, *_):
    raise Reject("never")


def assert_whole(place, topic: str, value) -> None:
    body, key, headers = copy_of(place, f"{topic}.dead")
    assert (body, key) == (value, KEY)
    assert headers[: len(HEADERS)] == HEADERS
    ours = dict(headers[len(HEADERS) :])
    assert ours.pop("dupeproof-reason").decode().endswith("never")
    assert ours == {
        "dupeproof-queue": topic.encode(),
        "dupeproof-attempts": b"1",
        "dupeproof-partition": b"0",
        "dupeproof-offset": b"0",
        "dupeproof-timestamp": str(WHEN).encode(),
    }


def test_a_dead_letter_is_the_message_as_it_came(place, topic, value, is_async, run, until):
    handler = reject_async if is_async else reject
    running = run(place.consumer(topic, handler, once=UNGUARDED, group=topic))
    until(lambda: running.tally.dead == 1, lambda: (running.tally, running.error))
    running.stop()
    assert_whole(place, topic, value)


@pytest.fixture
def transform(place, run, until):
    def through(topic, handler):
        transformer = Transformer(place.url, topic, handler, group=topic, config=QUICK)
        running = run(transformer)
        until(lambda: transformer.tally.read == 1, lambda: (transformer.tally, running.error))
        running.stop()

    return through


def test_a_dead_letter_of_a_transformer_is_the_message_as_it_came(place, topic, value, transform):
    transform(topic, reject)
    assert_whole(place, topic, value)


def test_what_a_transformer_forwards_is_the_message_as_it_came(place, topic, value, transform):
    out = new_queue()
    place.declare(out, 1)
    transform(topic, lambda message: [forward(message, out)])
    assert copy_of(place, out) == (value, KEY, HEADERS)


def test_what_is_given_to_forward_takes_the_place_of_what_came(place, topic, transform):
    out = new_queue()
    place.declare(out, 1)
    place.send(topic, b"x", key=KEY, headers=HEADERS)
    transform(topic, lambda message: [forward(message, out, value=None, key=b"k", headers=[("a", None)])])
    assert copy_of(place, out) == (None, b"k", [("a", None)])


def test_only_messages_of_kafka_can_be_forwarded():
    from dupeproof.brokers.base import Message as Given

    with pytest.raises(ConfigError, match="by Kafka"):
        forward(Given(id="a", body=b"", headers={}, topic="t"), "out")


def test_a_handler_sees_all_that_kafka_tells_of_a_message(place, topic, value, run, until):
    found = []
    running = run(place.consumer(topic, found.append, once=Once("memory://"), group=topic))
    until(lambda: found, lambda: (running.tally, running.error))
    running.stop()
    [message] = found
    assert (message.id, message.type) == ("m-1", "placed")
    assert message.body == (value or b"")
    assert message.raw.value() == value
    assert message.raw.headers() == HEADERS
    assert (message.partition, message.position) == (0, 0)
    assert message.timestamp == datetime.fromtimestamp(WHEN / 1_000, UTC)
    assert (message.content_type, message.correlation_id) == ("application/avro", "c-1")
    assert message.headers["hop"] == "two"


def test_the_type_of_an_outbox_message_reaches_the_handler(place, topic, run, until):
    with KafkaPublisher(place.url) as publisher:
        publisher.publish(
            [Message(id="m-1", topic=topic, key=None, payload=b"{}", headers={}, type="order.placed")]
        )
    found = []
    running = run(place.consumer(topic, found.append, once=Once("memory://"), group=topic))
    until(lambda: found, lambda: (running.tally, running.error))
    assert found[0].type == "order.placed"
    assert "message-type" not in found[0].headers


def test_what_cannot_be_an_id_is_kept_beside_the_dead_letter(place, topic, run, until):
    place.send(topic, b"x", headers=[("message-id", b"\xff"), ("a", b"1")])
    running = run(place.consumer(topic, reject, once=UNGUARDED, group=topic))
    until(lambda: running.tally.dead == 1, lambda: (running.tally, running.error))
    running.stop()
    _, _, headers = copy_of(place, f"{topic}.dead")
    assert headers[:2] == [("dupeproof-unusable-id", b"\xff"), ("a", b"1")]
