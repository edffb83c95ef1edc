"""A message that fails holds up its own partition. The others go on, however much waits behind it."""

import threading
from collections.abc import Iterable

import pytest
from brokers_ledgers import PostgresLedger
from brokers_places import KafkaPlace, new_queue
from confluent_kafka import Producer
from confluent_kafka.admin import AdminClient, NewTopic

from dupeproof.brokers.base import Reject

PARTITIONS, EACH, BEHIND = 6, 60, 800
BAD = "0-0"
"""The first message of the first partition."""


@pytest.fixture
def place(kafka_server):
    return KafkaPlace(kafka_server.url)


@pytest.fixture
def queue(place):
    """With nothing but the bad message, and behind it more than a consumer takes into its hands."""
    name = new_queue()
    admin = AdminClient({"bootstrap.servers": place.url})
    admin.create_topics([NewTopic(name, PARTITIONS, 1)])[name].result(20)
    send(place, name, [0])
    return name


def send(place, queue: str, partitions: Iterable[int]) -> None:
    producer = Producer({"bootstrap.servers": place.url})
    for partition in partitions:
        for ident in idents(partition):
            headers = [("message-id", ident.encode())]
            producer.produce(queue, ident, key=str(partition), partition=partition, headers=headers)
    assert producer.flush(20) == 0


def idents(partition: int) -> list[str]:
    return [f"{partition}-{n}" for n in range(BEHIND if partition == 0 else EACH)]


class Healing(PostgresLedger):
    """The bad message fails until its time has come, and then succeeds, or is hopeless."""

    def __init__(self, url: str) -> None:
        super().__init__(url)
        self.empty()
        self.tries = 0
        self.time_has_come = threading.Event()
        self.is_hopeless = False

    def check(self, message) -> None:
        if message.id != BAD:
            return
        self.tries += 1
        if not self.time_has_come.is_set():
            raise RuntimeError("not yet")
        if self.is_hopeless:
            raise Reject("never")

    def write(self, message, connection) -> None:
        self.check(message)
        super().write(message, connection)

    async def write_async(self, message, connection) -> None:
        self.check(message)
        await super().write_async(message, connection)

    def done(self, partition: int) -> list[str]:
        return [ident for ident, key, _ in self.rows() if key == str(partition)]

    def others_done(self) -> int:
        return sum(key != "0" for _, key, _ in self.rows())


@pytest.fixture
def ledger(postgres_module_url):
    return Healing(postgres_module_url)


@pytest.fixture
def stuck(place, queue, ledger, run, until):
    """A consumer that has tried the bad message again, and done all that came on other partitions since."""

    def start(*, is_async: bool = False, **options):
        handler = ledger.write_async if is_async else ledger.write
        inbox = ledger.inbox(is_async=is_async, group=queue)
        again = {"backoff": "100ms", "max_backoff": "200ms", "max_attempts": None, "batch": 10}
        running = run(place.consumer(queue, handler, inbox=inbox, **again, **options))
        before = ledger.tries
        until(lambda: ledger.tries >= before + 3, lambda: (running.tally, running.error))
        send(place, queue, others)
        until(lambda: ledger.others_done() == len(others) * EACH, lambda: running.tally)
        assert ledger.done(0) == []
        return running

    others = range(1, PARTITIONS)
    return start


@pytest.mark.parametrize(("is_async", "concurrency", "is_hopeless"), [(False, 1, False), (True, 12, True)])
def test_the_other_partitions_go_on_and_it_follows_in_order_when_the_message_is_done_or_dead(
    stuck, ledger, until, is_async, concurrency, is_hopeless
):
    running = stuck(is_async=is_async, concurrency=concurrency)
    ledger.is_hopeless = is_hopeless
    ledger.time_has_come.set()
    expected = idents(0)[is_hopeless:]
    until(lambda: len(ledger.done(0)) >= len(expected), lambda: (len(ledger.done(0)), running.tally))
    running.stop()
    assert running.tally.dead == is_hopeless
    assert ledger.done(0) == expected
    for partition in range(1, PARTITIONS):
        assert ledger.done(partition) == idents(partition)


def test_a_partition_that_goes_to_another_while_it_is_stuck_is_done_once_and_in_order(
    place, queue, stuck, ledger, run, until
):
    first = stuck()
    second = run(
        place.consumer(queue, ledger.write, inbox=ledger.inbox(is_async=False, group=queue), batch=10)
    )
    first.stop()
    ledger.time_has_come.set()
    until(lambda: len(ledger.done(0)) >= BEHIND, lambda: (len(ledger.done(0)), second.tally))
    second.stop()
    for partition in range(PARTITIONS):
        assert ledger.done(partition) == idents(partition)
