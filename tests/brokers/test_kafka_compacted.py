"""A compacted topic refuses messages without a key, and its client reports that of all that shared their batch."""

import sqlite3
from collections import Counter

import pytest
from brokers_places import KafkaPlace, message, new_queue

from dupeproof import Outbox, Relay
from dupeproof.brokers.errors import NotPublished
from dupeproof.brokers.kafka import Transformer, forward

QUICK = {"session.timeout.ms": 2_000, "heartbeat.interval.ms": 500}


@pytest.fixture
def place(kafka_server):
    return KafkaPlace(kafka_server.url)


@pytest.fixture
def compacted(place):
    name = new_queue()
    place.declare(name, 1, **{"cleanup.policy": "compact"})
    return name


def ids_in(place, topic: str, expected: int) -> Counter:
    return Counter(dict(each.headers())["message-id"].decode() for each in place.read(topic, expected))


@pytest.mark.parametrize("bad", [0, 2, 4])
def test_only_the_message_without_a_key_is_refused(place, compacted, is_async, bad):
    sent = [message(compacted, f"m-{n}", key=None if n == bad else f"k-{n}") for n in range(5)]
    results = place.publish(*sent, is_async=is_async)
    assert [n for n, result in enumerate(results) if result is not None] == [bad]
    assert isinstance(results[bad], NotPublished)
    assert results[bad].reason == "unfit"
    assert ids_in(place, compacted, 4) == Counter(f"m-{n}" for n in range(5) if n != bad)


def test_a_relay_dead_letters_only_the_message_without_a_key(place, compacted, tmp_path):
    with sqlite3.connect(tmp_path / "shop.db") as connection:
        Outbox().create_schema(connection)
        for n in range(51):
            Outbox().add(
                connection, topic=compacted, payload={}, id=f"m-{n}", key=None if n == 25 else f"k-{n}"
            )
    relay = Relay(
        f"sqlite:///{tmp_path}/shop.db", publisher=place.publisher(), max_attempts=3, backoff="10ms"
    )
    with relay:
        while (status := relay.status()).backlog:
            relay.run_once()
    assert (status.sent, status.dead) == (50, 1)
    assert ids_in(place, compacted, 50) == Counter(f"m-{n}" for n in range(51) if n != 25)


def test_a_transformer_dead_letters_only_the_message_without_a_key(place, compacted, run, until):
    topic = new_queue()
    place.declare(topic, 1)
    place.publish(*(message(topic, f"m-{n}", key=f"k-{n}") for n in range(30)))

    def copy(each):
        return [forward(each, compacted, **({"key": None} if each.id == "m-12" else {}))]

    transformer = Transformer(
        place.url, topic, copy, group=topic, max_attempts=2, backoff="50ms", config=QUICK
    )
    running = run(transformer)
    until(lambda: running.tally.read == 30, lambda: (running.tally, running.error))
    running.stop()
    assert running.tally.dead == 1
    assert ids_in(place, f"{topic}.dead", 1) == Counter(["m-12"])
    assert ids_in(place, compacted, 29) == Counter(f"m-{n}" for n in range(30) if n != 12)


def test_of_several_for_one_message_the_one_without_a_key_is_blamed_and_the_message_dead_lettered(
    place, compacted, run, until
):
    topic = new_queue()
    place.declare(topic, 1)
    place.publish(*(message(topic, f"m-{n}", key=f"k-{n}") for n in range(6)))

    def split(each):
        keys = [b"a", None if each.id == "m-3" else b"b", b"c"]
        return [forward(each, compacted, key=key) for key in keys]

    transformer = Transformer(
        place.url, topic, split, group=topic, max_attempts=2, backoff="50ms", config=QUICK
    )
    running = run(transformer)
    until(lambda: running.tally.read == 6, lambda: (running.tally, running.error))
    running.stop()
    assert running.tally.dead == 1
    assert ids_in(place, compacted, 15) == Counter({f"m-{n}": 3 for n in range(6) if n != 3})
