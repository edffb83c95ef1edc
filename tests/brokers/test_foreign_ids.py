"""Messages of other libraries are known by the ids that these give them; without an id of the broker's own."""

import json

import pytest
from brokers_places import KafkaPlace, NatsPlace, RedisStreamPlace, new_queue
from celery import Celery
from cloudevents.core.bindings import amqp as events_in_amqp
from cloudevents.core.bindings import kafka as events_in_kafka
from cloudevents.core.formats.json import JSONFormat
from cloudevents.core.v1.event import CloudEvent
from kombu import Connection, Producer

from dupeproof import AsyncOnce, Once


@pytest.fixture
def collected(is_async, run, until):
    """The ids of those that are worked on, each message sent twice; and how many were known."""

    def collect(place, queue, send):
        seen = []

        async def handle_async(message):
            seen.append(message.id)

        once = (AsyncOnce if is_async else Once)("memory://", namespace=queue)
        handler = handle_async if is_async else lambda message: seen.append(message.id)
        group = {} if place.name == "rabbitmq" else {"group": "readers"}
        place.declare(queue)
        send()
        send()
        running = run(place.consumer(queue, handler, once=once, **group))
        until(
            lambda: running.tally.done + running.tally.duplicates + running.tally.dead >= 2,
            lambda: (running.tally, running.error),
        )
        running.stop()
        assert (running.tally.done, running.tally.duplicates) == (1, 1), running.tally
        return seen[0]

    return collect


def an_event():
    attributes = {"id": "evt-1", "source": "/shop", "type": "order.placed", "specversion": "1.0"}
    return CloudEvent(attributes={**attributes, "datacontenttype": "application/json"}, data={"total": 5})


def amqp_sender(rabbit, queue, sent):
    def send():
        import pika

        channel = rabbit.channel()
        properties = pika.BasicProperties(
            headers={**sent.application_properties},
            content_type=sent.properties.get("content-type"),
        )
        channel.basic_publish("", queue, sent.application_data, properties)
        channel.connection.close()

    return send


@pytest.mark.server("rabbitmq")
@pytest.mark.parametrize("mode", ["to_binary", "to_structured"])
def test_cloudevents_in_rabbitmq(rabbit, collected, mode):
    queue = new_queue()
    sent = getattr(events_in_amqp, mode)(an_event(), JSONFormat())
    assert collected(rabbit, queue, amqp_sender(rabbit, queue, sent)) == '["/shop","evt-1"]'


@pytest.mark.server("kafka")
@pytest.mark.parametrize("mode", ["to_binary", "to_structured"])
def test_cloudevents_in_kafka(kafka_server, collected, mode):
    from confluent_kafka import Producer as KafkaProducer

    place, queue = KafkaPlace(kafka_server.url), new_queue()
    sent = getattr(events_in_kafka, mode)(an_event(), JSONFormat())

    def send():
        producer = KafkaProducer({"bootstrap.servers": place.url})
        producer.produce(queue, sent.value, headers=list(sent.headers.items()), partition=0)
        assert producer.flush(20) == 0

    assert collected(place, queue, send) == '["/shop","evt-1"]'


@pytest.mark.server("nats")
@pytest.mark.parametrize("mode", ["binary", "structured"])
def test_cloudevents_in_nats(nats_server, collected, mode):
    place, queue = NatsPlace(nats_server.url), new_queue()
    event = {"id": "evt-1", "source": "/shop", "type": "order.placed", "specversion": "1.0"}
    binary = {f"ce-{name}": value for name, value in event.items()}
    headers, body = (binary, b"{}")
    if mode == "structured":
        headers, body = {"content-type": "application/cloudevents+json"}, json.dumps(event).encode()
    assert collected(place, queue, lambda: place.send_raw(queue, body, dict(headers))) == '["/shop","evt-1"]'


@pytest.mark.server("redis")
@pytest.mark.parametrize("mode", ["binary", "structured"])
def test_cloudevents_in_redis(redis_server, collected, mode):
    place, queue = RedisStreamPlace(redis_server.url), new_queue()
    event = {"id": "evt-1", "source": "/shop", "type": "order.placed", "specversion": "1.0"}
    fields, body = ({f"ce_{name}": value for name, value in event.items()}, b"{}")
    if mode == "structured":
        fields, body = {"content-type": "application/cloudevents+json"}, json.dumps(event).encode()
    assert collected(place, queue, lambda: place.send_raw(queue, body, fields)) == '["/shop","evt-1"]'


@pytest.mark.server("rabbitmq")
def test_tasks_of_celery(rabbit, collected):
    queue = new_queue()
    app = Celery(broker=rabbit.url)
    app.conf.task_create_missing_queues = True

    def send():
        app.send_task("shop.mail", args=[5], task_id="task-1", queue=queue)

    assert collected(rabbit, queue, send) == "task-1"
    app.close()


@pytest.mark.server("rabbitmq")
def test_a_retry_of_celery_is_another_message(rabbit, collected):
    queue = new_queue()
    app = Celery(broker=rabbit.url)

    def send():
        app.send_task("shop.mail", args=[5], task_id="task-1", queue=queue, retries=2)

    assert collected(rabbit, queue, send) == "task-1:2"
    app.close()


@pytest.mark.server("rabbitmq")
def test_messages_of_kombu(rabbit, collected):
    """It sets no id of its own; what its user gives is where the broker has it."""
    queue = new_queue()

    def send():
        with Connection(rabbit.url) as connection:
            Producer(connection).publish({"total": 5}, routing_key=queue, message_id="kombu-1")

    assert collected(rabbit, queue, send) == "kombu-1"
