"""What RabbitMQ itself has dead-lettered, and queues that count how often a message was looked at."""

import time

import pytest
from brokers_places import new_queue

from dupeproof import ConfigError
from dupeproof.brokers import dead_letters
from dupeproof.brokers.base import UNGUARDED, Reject

pytestmark = pytest.mark.server("rabbitmq")
KINDS = {
    "classic": {},
    "quorum": {"x-queue-type": "quorum"},
    "quorum that takes one return": {"x-queue-type": "quorum", "x-delivery-limit": 1},
}


@pytest.fixture(params=KINDS)
def kind(request):
    return KINDS[request.param]


@pytest.fixture
def letters(rabbit):
    queue = new_queue()
    rabbit.declare(queue)

    def of(**options):
        return dead_letters(rabbit.url, queue, **options)

    of.queue = queue
    return of


def fill(channel, queue: str, kind: dict, count: int) -> list[str]:
    import pika

    channel.queue_declare(queue, durable=True, arguments=kind)
    channel.confirm_delivery()
    for number in range(count):
        channel.basic_publish("", queue, b"{}", pika.BasicProperties(message_id=f"m-{number}"))
    return [f"m-{number}" for number in range(count)]


def ids(found) -> list[str]:
    return [each.message.id for each in found]


def test_looking_many_times_loses_nothing_and_changes_no_order(channel, letters, kind):
    known = fill(channel, f"{letters.queue}.dead", kind, 12)
    for _ in range(5):
        assert ids(letters().list()) == known
        assert ids(letters().list(3)) == known[:3]
        assert ids(letters().get("m-5")) == ["m-5"]


@pytest.mark.parametrize("window", [7, 20])
def test_more_than_one_channel_holds_come_back_in_their_order(channel, letters, kind, monkeypatch, window):
    monkeypatch.setattr("dupeproof.brokers.rabbitmq.dead._WINDOW", window)
    known = fill(channel, f"{letters.queue}.dead", kind, 120)
    for _ in range(3):
        assert ids(letters().list(100)) == known[:100]
        assert letters().get("nobody") == []
    assert letters().drop(["m-3", "m-99"]).done == ["m-3", "m-99"]
    assert ids(letters().list(200)) == [each for each in known if each not in ("m-3", "m-99")]


def test_in_a_long_queue_nothing_is_lost_though_the_order_may_change(channel, letters, kind, monkeypatch):
    monkeypatch.setattr("dupeproof.brokers.rabbitmq.dead._MOST_RENEWED", 4)
    known = fill(channel, f"{letters.queue}.dead", kind, 20)
    for _ in range(6):
        assert len(letters().list(5)) == 5
    assert sorted(ids(letters().list())) == sorted(known)


def test_the_place_of_a_letter_stays_the_same(channel, letters, kind):
    fill(channel, f"{letters.queue}.dead", kind, 3)
    places = [[each.place for each in letters().list()] for _ in range(4)]
    assert len(set(places[0])) == 3
    assert places.count(places[0]) == 4


def test_moving_some_leaves_the_others_in_their_order(channel, letters, kind):
    fill(channel, f"{letters.queue}.dead", kind, 6)
    letters().list()
    assert letters().retry(["m-4", "m-1"]).done == ["m-1", "m-4"]
    assert ids(letters().list()) == ["m-0", "m-2", "m-3", "m-5"]
    assert letters().drop(["m-3", "m-9"]).missing == ["m-9"]
    assert ids(letters().list()) == ["m-0", "m-2", "m-5"]


@pytest.mark.parametrize("why", ["rejected", "expired", "maxlen"])
def test_what_the_broker_has_dead_lettered_goes_back_to_its_queue(rabbit, channel, kind, why, run, until):
    import pika

    source, dead = new_queue(), new_queue()
    channel.queue_declare(dead, durable=True, arguments=kind)
    arguments = {"x-dead-letter-exchange": "", "x-dead-letter-routing-key": dead}
    if why == "maxlen":
        arguments |= {"x-max-length": 1}
    channel.queue_declare(source, durable=True, arguments=arguments)
    exchange = new_queue()
    channel.exchange_declare(exchange, "topic", durable=True)
    channel.queue_bind(source, exchange, "orders.*")
    channel.confirm_delivery()
    properties = pika.BasicProperties(
        message_id="m-1",
        type="order.placed",
        correlation_id="c-1",
        headers={"tenant": "eu"},
        expiration="1" if why == "expired" else None,
    )
    channel.basic_publish(exchange, "orders.placed", b'{"amount": 5}', properties)
    if why == "maxlen":
        channel.basic_publish(exchange, "orders.placed", b"next", pika.BasicProperties(message_id="m-2"))
    if why == "rejected":
        method, *_ = channel.basic_get(source)
        channel.basic_nack(method.delivery_tag, requeue=False)

    def of():
        return dead_letters(rabbit.url, source, dead=dead)

    until(lambda: len(of().list()) == 1)
    for _ in range(3):
        [letter] = of().list()
        assert letter.reason.startswith(f"{why}: ")
        assert (letter.queue, letter.message.topic, letter.attempts) == (source, "orders.placed", 1)
        assert abs(letter.died.timestamp() - time.time()) < 60
        assert (letter.message.type, letter.message.headers) == ("order.placed", {"tenant": "eu"})
    if why == "maxlen":
        channel.basic_get(source, auto_ack=True)
    assert of().retry(["m-1"]).done == ["m-1"]
    found: list = []
    running = run(rabbit.consumer(source, found.append, once=UNGUARDED, create=False))
    until(lambda: found)
    running.stop()
    [again] = found
    assert (again.id, again.body, again.type) == ("m-1", b'{"amount": 5}', "order.placed")
    assert (again.correlation_id, again.headers) == ("c-1", {"tenant": "eu"})
    assert (again.topic, again.attempt) == ("orders.placed", 1)
    assert not any(name.startswith(("x-death", "x-first-death")) for name in again.raw.properties.headers)
    assert of().list() == []


def test_a_queue_that_is_full_refuses_and_the_letter_stays(rabbit, channel):
    queue = new_queue()
    full = {"x-max-length": 1, "x-overflow": "reject-publish"}
    channel.queue_declare(queue, durable=True, arguments=full)
    channel.basic_publish("", queue, b"first")
    fill(channel, f"{queue}.dead", {}, 2)
    moved = dead_letters(rabbit.url, queue).retry(["m-0"])
    assert (moved.done, list(moved.refused)) == ([], ["m-0"])
    assert "full" in moved.refused["m-0"]
    assert ids(dead_letters(rabbit.url, queue).list()) == ["m-0", "m-1"]


def test_retrying_all_takes_only_those_that_are_there_now(rabbit, letters, channel, run, until):
    """A consumer that rejects them again at once must not keep the command busy for ever."""
    fill(channel, f"{letters.queue}.dead", {}, 50)

    def reject(message):
        raise Reject("again")

    consumer = rabbit.consumer(letters.queue, reject, once=UNGUARDED)
    running = run(consumer)
    assert len(letters().retry().done) == 50
    until(lambda: consumer.tally.dead == 50)
    running.stop()
    assert len(letters().list()) == 50


def test_one_that_is_not_among_those_looked_at_is_said(channel, letters):
    fill(channel, f"{letters.queue}.dead", {}, 5)
    with pytest.raises(ConfigError, match="--scan"):
        letters(scan=3).retry(["m-4"])
    assert ids(letters().list()) == [f"m-{number}" for number in range(5)]
