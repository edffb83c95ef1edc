"""Messages that a broker will not take, back, aside or at all: only they are held up, and nothing is lost."""

import asyncio
import time

import pytest
from brokers_guards import made
from brokers_ledgers import PostgresLedger
from brokers_places import KafkaPlace, NatsPlace, RabbitPlace, message, new_queue

from dupeproof import ConfigError, Once
from dupeproof.brokers.base import REASON, Reject
from dupeproof.brokers.errors import BrokerUnavailable
from dupeproof.brokers.kafka import KafkaPublisher, Transformer
from dupeproof.brokers.nats import NatsPublisher

QUICK = {"session.timeout.ms": 2_000, "heartbeat.interval.ms": 500}


@pytest.fixture
def kafka(kafka_server):
    return KafkaPlace(kafka_server.url)


def refuse(each):
    raise Reject("no")


def test_a_retry_waits_for_a_place_in_a_full_queue(rabbit, channel, is_async, run, until):
    queue, seen = new_queue(), []
    channel.queue_declare(queue, durable=True, arguments={"x-max-length": 1, "x-overflow": "reject-publish"})

    def handle(each):
        seen.append((each.id, each.attempt))
        if each.id == "m-1" and each.attempt == 1:
            raise ValueError

    handler, once = made(handle, is_async)
    rabbit.publish(message(queue, "m-1"))
    first = run(rabbit.consumer(queue, handler, once=once, backoff="500ms"))
    until(lambda: first.tally.retried == 1, lambda: first.tally)
    first.stop()
    assert rabbit.publish(message(queue, "in the way")) == [None]
    time.sleep(1.5)  # the time of the retry comes, and the queue is full
    second = run(rabbit.consumer(queue, handler, once=once))
    until(lambda: ("m-1", 2) in seen, lambda: seen)
    second.stop()


def test_a_queue_for_the_dead_of_another_kind_will_do(rabbit, channel, is_async, run, until):
    queue = new_queue()
    rabbit.declare(queue)
    channel.queue_declare(f"{queue}.dead", durable=True, arguments={"x-queue-type": "quorum"})
    handler, once = made(refuse, is_async)
    rabbit.publish(message(queue, "m-1"))
    running = run(rabbit.consumer(queue, handler, once=once))
    until(lambda: running.tally.dead == 1, lambda: running.tally)
    running.stop()
    assert channel.queue_declare(f"{queue}.dead", passive=True).method.message_count == 1


def test_what_is_done_is_acknowledged_although_another_cannot_be_put_aside(
    rabbit, channel, is_async, run, until, caplog
):
    queue = new_queue()
    rabbit.declare(queue)
    full = {"x-max-length": 0, "x-overflow": "reject-publish"}
    channel.queue_declare(f"{queue}.dead", durable=True, arguments=full)

    def handle(each):
        if each.id == "bad":
            raise Reject("no")

    handler, once = made(handle, is_async)
    rabbit.publish(message(queue, "bad"), *(message(queue, f"m-{n}") for n in range(20)))
    running = run(rabbit.consumer(queue, handler, once=once, backoff="50ms"))
    until(lambda: running.tally.done == 20 and "is held" in caplog.text, lambda: running.tally)
    running.stop()
    assert running.tally.reconnects == 0
    assert channel.queue_declare(queue, passive=True).method.message_count == 1


def test_rabbitmq_refuses_an_unfit_message_and_takes_the_others(rabbit, is_async):
    queue = new_queue()
    rabbit.declare(queue)
    results = rabbit.publish(
        message(queue, "m-1"),
        message("t" * 256, "m-2"),
        message(queue, "m-3", **{"n" * 256: "v"}),
        message(queue, "m-4"),
        is_async=is_async,
    )
    assert [None if each is None else each.reason for each in results] == [None, "unfit", "unfit", None]


def test_a_message_larger_than_rabbitmq_takes_is_found_among_others(own_rabbitmq):
    place, queue = RabbitPlace(own_rabbitmq(settings={"max_message_size": 65_536}).url), new_queue()
    place.declare(queue)
    sent = [message(queue, "m-1"), message(queue, "m-2", b"x" * 70_000), message(queue, "m-3")]
    for is_async in (False, True):
        results = place.publish(*sent, is_async=is_async)
        assert [None if each is None else each.reason for each in results] == [None, "unfit", None]
        assert "max_message_size" in str(results[1])


def test_an_exchange_that_was_deleted_is_missed_once(rabbit, channel, is_async):
    exchange, queue = new_queue(), new_queue()

    def declare():
        channel.exchange_declare(exchange)
        channel.queue_declare(queue, durable=True)
        channel.queue_bind(queue, exchange, queue)

    declare()
    publisher = rabbit.publisher(is_async=is_async, exchange=exchange)
    sent = [message(queue, "m-1")]
    with asyncio.Runner() as runner:

        def publish():
            return runner.run(publisher.publish(sent)) if is_async else publisher.publish(sent)

        assert publish() == [None]
        channel.exchange_delete(exchange)
        with pytest.raises(ConfigError, match=exchange):
            publish()
        declare()
        assert publish() == [None]
        if is_async:
            runner.run(publisher.close())
        else:
            publisher.close()


def test_kafka_refuses_an_unfit_message_and_takes_the_others(kafka, is_async):
    queue = new_queue()
    kafka.declare(queue)
    results = kafka.publish(
        message(queue, "m-1"),
        message("no topic/at all", "m-2"),
        message(queue, "m-3", b"x" * 2_000_000),
        message(queue, "m-4"),
        is_async=is_async,
    )
    assert [None if each is None else each.reason for each in results] == [None, "unfit", "unfit", None]


@pytest.fixture
def large_topic(kafka):
    """One that takes more than topics do by default."""
    from confluent_kafka.admin import AdminClient, NewTopic

    name = new_queue()
    wanted = NewTopic(name, 1, 1, config={"max.message.bytes": "5000000"})
    admin = AdminClient({"bootstrap.servers": kafka.url})
    admin.create_topics([wanted])[name].result(20)
    return name


def test_kafka_has_a_place_for_large_messages_that_are_put_aside(kafka, large_topic, is_async, run, until):
    handler, once = made(refuse, is_async)
    assert kafka.publish(message(large_topic, "m-1", b"x" * 3_000_000)) == [None]
    running = run(kafka.consumer(large_topic, handler, once=once))
    until(lambda: running.tally.dead == 1, lambda: running.tally)
    running.stop()


@pytest.mark.parametrize(
    ("out", "text"),
    [
        ("nobody.made.this", "there is no topic 'nobody.made.this'"),
        ("no topic/at all", "is no topic"),
        ("too-large", "size too large"),
    ],
)
def test_what_a_transformer_cannot_write_is_put_aside_with_its_reason(kafka, out, text, run, until):
    queue, good = new_queue(), new_queue()
    kafka.declare(queue)
    kafka.declare(good)

    def handle(each):
        if each.id != "bad":
            return [message(good, each.id)]
        return [message(good, "bad", b"x" * 2_000_000) if out == "too-large" else message(out, "bad")]

    kafka.publish(*(message(queue, ident, key="k") for ident in ("m-1", "bad", "m-2")))
    transformer = Transformer(
        kafka.url, queue, handle, group=queue, max_attempts=2, backoff="10ms", config=QUICK
    )
    running = run(transformer)
    until(lambda: transformer.tally.read == 3, lambda: transformer.tally)
    running.stop()
    assert (transformer.tally.dead, transformer.tally.written) == (1, 3)
    found = []
    handler, once = made(found.append, is_async=False)
    reading = run(kafka.consumer(f"{queue}.dead", handler, once=once))
    until(lambda: len(found) == 1)
    reading.stop()
    assert found[0].id == "bad"
    assert text in found[0].headers[REASON]


@pytest.mark.parametrize("settings", [{"no.such.setting": 1}, {"session.timeout.ms": object()}])
def test_settings_that_kafka_does_not_know_are_told(kafka, settings):
    queue = new_queue()
    with pytest.raises(ConfigError, match="config="):
        kafka.module.consumer(kafka.url, queue, print, once=Once("memory://"), config=settings).run()
    with pytest.raises(ConfigError, match="config="):
        KafkaPublisher(kafka.url, config=settings).publish([message(queue, "m-1")])
    with pytest.raises(ConfigError, match="config="):
        Transformer(kafka.url, queue, lambda each: [], group=queue, config=settings).run()


USERS = """{ users: [
    { user: "all", password: "all" },
    { user: "few", password: "s3cret", permissions: { publish: ["open"], subscribe: ["_INBOX.>"] } }
] }"""


def few_permitted(own_nats):
    return own_nats(settings={"authorization": USERS})


def test_a_nats_that_goes_away_after_a_refusal_is_away_and_not_refused(own_nats):
    server = few_permitted(own_nats)
    there = server.url.rpartition("@")[2]
    for subject in ("open", "closed"):
        NatsPlace(f"nats://all:all@{there}").declare(subject)
    with NatsPublisher(f"nats://few:s3cret@{there}", timeout="1s") as publisher:
        [refused] = publisher.publish([message("closed", "m-1")])
        assert refused.reason == "refused"
        server.pause()
        with pytest.raises(BrokerUnavailable):
            publisher.publish([message("open", "m-2")])
        server.resume()


@pytest.mark.parametrize("is_async", [False, True])
def test_what_a_user_of_nats_may_not_do_is_told(own_nats, monkeypatch, is_async, run, until):
    monkeypatch.setattr("dupeproof.brokers.nats.source_async.TIMEOUT", 1.0)
    there = few_permitted(own_nats).url.rpartition("@")[2]
    place = NatsPlace(f"nats://all:all@{there}")
    place.declare("open")
    place.declare("Closed")
    place.url = f"nats://few:s3cret@{there}"
    sent = [message("Closed", "m-1"), message("open", "m-2")]
    refused, taken = place.publish(*sent, is_async=is_async, timeout="1s")
    assert (refused.reason, taken) == ("refused", None)
    assert "'Closed'" in str(refused)
    handler, once = made(refuse, is_async)
    running = run(place.consumer("open", handler, once=once))
    until(lambda: running.ended)
    assert isinstance(running.error, ConfigError)
    assert "$js.api.stream.names" in str(running.error)
    assert "s3cret" not in str(running.error)


@pytest.mark.parametrize("create", [False, True])
def test_a_name_that_no_topic_can_have_is_an_error_and_not_waited_for(kafka, create):
    with pytest.raises(ConfigError, match="can have no topic 'two words'"):
        kafka.module.consumer(kafka.url, "two words", print, once=Once("memory://"), create=create).run()


@pytest.mark.timeout(180)
def test_a_database_that_is_down_when_partitions_are_assigned_is_waited_for(
    kafka, own_postgres, is_async, run, until, caplog
):
    server = own_postgres()
    ledger = PostgresLedger(server.url)
    ledger.empty()
    queue = new_queue()
    kafka.declare(queue)
    kafka.publish(message(queue, "m-1"))

    async def write_as_task(each, connection):
        await ledger.write_async(each, connection)

    inbox = ledger.inbox(is_async=is_async, group=queue)
    server.kill()
    running = run(
        kafka.consumer(queue, write_as_task if is_async else ledger.write, inbox=inbox, backoff="200ms")
    )
    until(lambda: running.tally.reconnects > 0 or running.ended, lambda: caplog.text)
    server.start()
    until(lambda: running.tally.done == 1 or running.ended, lambda: running.tally)
    assert not running.ended
    running.stop()
    assert ledger.counts() == {"m-1": 1}


@pytest.mark.timeout(120)
def test_a_wrong_password_for_kafka_is_an_error_at_once_and_is_not_shown(own_kafka, run, until):
    server = own_kafka(users={"app": "right-secret"})
    KafkaPlace(server.url).declare("orders")
    place = KafkaPlace(server.guarded_url)

    def config(password):
        return {
            "security.protocol": "SASL_PLAINTEXT",
            "sasl.mechanism": "PLAIN",
            "sasl.username": "app",
            "sasl.password": password,
        }

    for is_async in (True, False):
        handler, once = made(lambda each: None, is_async)
        wrong = run(place.consumer("orders", handler, once=once, config=config("wrong-secret")))
        until(lambda wrong=wrong: wrong.ended)
        assert isinstance(wrong.error, ConfigError)
        assert "password" in str(wrong.error)
        assert "secret" not in str(wrong.error)
    with pytest.raises(ConfigError, match="password"):
        KafkaPublisher(place.url, config=config("wrong-secret"), timeout="10s").publish(
            [message("orders", "m-1")]
        )
    assert KafkaPublisher(place.url, config=config("right-secret")).publish([message("orders", "m-1")]) == [
        None
    ]
    right = run(place.consumer("orders", handler, once=once, config={**config("right-secret"), **QUICK}))
    until(lambda: right.tally.done == 1, lambda: right.tally)
    right.stop()
