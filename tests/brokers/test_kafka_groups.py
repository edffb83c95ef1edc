"""Every way in which the members of a group can share partitions, or a reason why not."""

from collections import Counter

import pytest
from brokers_ledgers import PostgresLedger
from brokers_places import KafkaPlace, message, new_queue

from dupeproof.brokers.base import UNGUARDED
from dupeproof.brokers.kafka import Transformer, consumer
from dupeproof.errors import ConfigError

QUICK = {"session.timeout.ms": 2_000, "heartbeat.interval.ms": 200}
WAYS = {
    "range": {"partition.assignment.strategy": "range", **QUICK},
    "roundrobin": {"partition.assignment.strategy": "roundrobin,range", **QUICK},
    "consumer": {"group.protocol": "consumer"},
}
"""Beside our own default, which all other tests have."""


@pytest.fixture
def place(kafka_server):
    return KafkaPlace(kafka_server.url)


@pytest.fixture
def queue(place):
    name = new_queue()
    place.declare(name)
    return name


@pytest.fixture
def ledger(postgres_module_url):
    ledger = PostgresLedger(postgres_module_url)
    ledger.empty()
    return ledger


@pytest.mark.parametrize(("way", "is_async"), [("range", False), ("roundrobin", True), ("consumer", False)])
def test_members_come_and_go_and_everything_is_done_once(place, queue, ledger, way, is_async, run, until):
    """Without ids: what is delivered twice would be there twice, were it not for the positions."""

    def member():
        handler = ledger.write_async if is_async else ledger.write
        inbox = ledger.inbox(is_async=is_async, group=queue)
        options = {"missing_id": "pass", "id_of": lambda _: None, "config": WAYS[way]}
        return run(place.consumer(queue, handler, inbox=inbox, **options))

    with place.publisher() as publisher:
        sent: list[str] = []

        def all_done() -> bool:
            return len(ledger.rows()) >= len(sent)

        def publish() -> None:
            some = [str(len(sent) + n) for n in range(4)]
            results = publisher.publish([message(queue, f"m-{n}", n.encode(), key=f"k-{n}") for n in some])
            assert results == [None] * 4
            sent.extend(some)

        def second_has_some() -> bool:
            if all_done():
                publish()
            return second.tally.done > 0

        first = member()
        publish()
        until(lambda: all_done() or first.ended, lambda: (first.tally, first.error))
        second = member()
        until(second_has_some, lambda: (first.tally, second.tally, first.error, second.error))
        first.stop()
        publish()
        until(all_done, lambda: (len(ledger.rows()), len(sent), second.tally))
        second.stop()
    assert Counter(row[2] for row in ledger.rows()) == Counter(sent)


@pytest.mark.parametrize(
    ("config", "reason"),
    [
        (
            {"partition.assignment.strategy": "range,cooperative-sticky"},
            "mixes cooperative-sticky with range",
        ),
        ({"partition.assignment.strategy": "sticky"}, "'sticky', which librdkafka does not know"),
        ({"group.protocol": "consumer", "partition.assignment.strategy": "range"}, "the broker decides part"),
        ({"group.protocol": "consumer", **QUICK}, "decides session.timeout.ms and heartbeat.interval.ms"),
        ({"group.protocol": "share"}, "'classic' or 'consumer', not 'share'"),
    ],
)
def test_what_cannot_be_is_refused_when_the_consumer_is_made(config, reason):
    with pytest.raises(ConfigError, match=reason):
        consumer("127.0.0.1:1", "orders", print, once=UNGUARDED, config=config)
    with pytest.raises(ConfigError, match=reason):
        Transformer("127.0.0.1:1", "orders", print, group="billing", config=config)
