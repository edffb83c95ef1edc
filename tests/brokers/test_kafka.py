"""What only Kafka has: partitions that change hands in the middle of the work, and transactions from topic to topic."""

import signal
import subprocess
import sys
import threading
import time
from collections import Counter
from pathlib import Path

import pytest
from brokers_ledgers import PostgresLedger
from brokers_places import KafkaPlace, message, new_queue

from dupeproof.brokers.base import REASON
from dupeproof.brokers.errors import Fenced
from dupeproof.brokers.kafka import Transformer
from dupeproof.outbox import Message

WORKER = Path(__file__).with_name("brokers_worker.py")
TRANSFORMER = Path(__file__).with_name("brokers_transformer.py")
QUICK = {"session.timeout.ms": 2_000, "heartbeat.interval.ms": 500}


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


def read_committed(place, topic: str, seconds: float = 3.0) -> list:
    """All messages of a topic that are committed."""
    from confluent_kafka import Consumer

    reader = Consumer(
        {
            "bootstrap.servers": place.url,
            "group.id": new_queue(),
            "auto.offset.reset": "earliest",
            "isolation.level": "read_committed",
        }
    )
    reader.subscribe([topic])
    found, quiet = [], time.monotonic() + 20
    while time.monotonic() < quiet:
        for each in reader.consume(100, 0.2):
            assert each.error() is None, each.error()
            found.append(each)
            quiet = time.monotonic() + seconds
    reader.close()
    return found


def test_a_consumer_that_was_stopped_for_too_long_cannot_write(place, queue, ledger, run, until):
    """Stopped in the middle of its transaction. There is no id that the inbox could know the message by."""
    place.send_raw(queue, b"only-once", {})
    command = [sys.executable, WORKER, "kafka", place.url, queue, ledger.url, "sync", "1.0", "pass"]
    with subprocess.Popen(command, stdout=subprocess.PIPE, text=True) as zombie:
        try:
            assert zombie.stdout.readline().strip() == "only-once"
            zombie.send_signal(signal.SIGSTOP)
            inbox = ledger.inbox(is_async=False, group=queue)
            running = run(place.consumer(queue, ledger.write, inbox=inbox, missing_id="pass"))
            until(lambda: running.tally.done == 1, lambda: running.tally)
            zombie.send_signal(signal.SIGCONT)
            time.sleep(2.5)  # more than what is left of its handler
            assert [row[2] for row in ledger.rows()] == ["only-once"]
            zombie.send_signal(signal.SIGTERM)
            out, _ = zombie.communicate(timeout=20)
            assert out.strip() == "drained 0"
        finally:
            zombie.kill()


@pytest.mark.parametrize("is_async", [False, True])
def test_consumers_that_come_and_go_in_the_middle_of_batches(place, queue, ledger, is_async, run, until):
    async def slow_async(message, connection):
        import asyncio

        await asyncio.sleep(0.01)
        await ledger.write_async(message, connection)

    def slow(message, connection):
        time.sleep(0.01)
        ledger.write(message, connection)

    def one():
        inbox = ledger.inbox(is_async=is_async, group=queue)
        # Without ids: what is delivered twice would be there twice, were it not for the positions.
        return run(
            place.consumer(
                queue, slow_async if is_async else slow, inbox=inbox, batch=5, concurrency=2, missing_id="pass",
                id_of=lambda message: None,
            )
        )  # fmt: skip

    place.publish(*(message(queue, f"m-{n}", str(n).encode(), key=f"k-{n}") for n in range(200)))
    first = one()
    until(lambda: len(ledger.rows()) >= 20, first.tally)
    second = one()
    until(lambda: second.tally.done > 0, lambda: (first.tally, second.tally))
    first.stop()
    until(lambda: len(ledger.rows()) >= 200, lambda: (len(ledger.rows()), second.tally))
    second.stop()
    assert Counter(row[2] for row in ledger.rows()) == Counter(str(n) for n in range(200))


def doubling(out):
    def handle(message):
        yield Message(id=f"{message.id}-a", topic=out, key=message.key, payload=message.body, headers={})
        yield Message(id=f"{message.id}-b", topic=out, key=message.key, payload=message.body, headers={})

    return handle


def started(transformer):
    errors = []

    def serve():
        try:
            transformer.run()
        except Exception as exc:
            errors.append(exc)

    thread = threading.Thread(target=serve, daemon=True)
    thread.start()
    return thread, errors


def test_of_what_fails_half_way_nothing_is_written_and_it_is_dead_lettered_in_the_end(place, queue, until):
    out = new_queue()
    place.declare(out)
    tries = Counter()
    double = doubling(out)

    def handle(message):
        yield from double(message)
        tries[message.id] += 1
        if message.id == "m-7" or (message.id == "m-3" and tries["m-3"] < 3):
            raise RuntimeError("half way through")

    place.publish(*(message(queue, f"m-{n}", key="k") for n in range(20)))
    transformer = Transformer(
        place.url, queue, handle, group=queue, max_attempts=4, backoff="20ms", config=QUICK
    )
    thread, errors = started(transformer)
    until(lambda: transformer.tally.read == 20, lambda: (transformer.tally, errors))
    transformer.stop()
    thread.join(20)
    assert not errors
    ids = Counter(dict(each.headers())["message-id"].decode() for each in read_committed(place, out))
    assert ids == Counter(f"m-{n}-{part}" for n in range(20) if n != 7 for part in "ab")
    [dead] = read_committed(place, f"{queue}.dead")
    assert "half way through" in dict(dead.headers())[REASON].decode()
    assert transformer.tally.dead == 1


def test_transformers_killed_again_and_again_write_everything_once(place, queue, until):
    out = new_queue()
    place.declare(out)
    place.publish(*(message(queue, f"m-{n}", b"x", key=f"k-{n}") for n in range(120)))
    command = [sys.executable, TRANSFORMER, place.url, queue, out, queue]
    for _ in range(3):
        with subprocess.Popen(command, stdout=subprocess.PIPE, text=True) as victim:
            try:
                for _ in range(25):  # in the middle of its third batch of ten
                    assert victim.stdout.readline()
            finally:
                victim.kill()
    transformer = Transformer(place.url, queue, lambda m: [
        Message(id=m.id, topic=out, key=m.key, payload=m.body.upper(), headers={})
    ], group=queue, config=QUICK)  # fmt: skip
    thread, errors = started(transformer)
    # What a victim left open holds back those who read committed messages; its time is over after a while.
    found = []
    until(lambda: found.extend(read_committed(place, out, 5.0)) or len(found) >= 120, lambda: len(found))
    transformer.stop()
    thread.join(20)
    assert not errors
    assert Counter(dict(each.headers())["message-id"].decode() for each in found) == Counter(
        f"m-{n}" for n in range(120)
    )


def test_a_zombie_is_fenced_by_its_successor(place, until):
    """There is one partition, which the zombie has until it ends."""
    queue, out = new_queue(), new_queue()
    place.declare(queue, 1)
    place.declare(out)
    began, go_on = threading.Event(), threading.Event()
    double = doubling(out)

    def stuck(message):
        began.set()
        go_on.wait(30)
        yield from double(message)

    def transformer(handler):
        return Transformer(
            place.url, queue, handler, group=queue, transactional_id=f"{queue}-tx", config=QUICK
        )

    place.publish(message(queue, "m-1"))
    zombie, zombie_errors = started(transformer(stuck))
    assert began.wait(30)
    successor = transformer(double)
    thread, errors = started(successor)
    until(lambda: place.members(queue) == 2)  # which is after it took over the id
    go_on.set()
    zombie.join(30)
    assert [type(each) for each in zombie_errors] == [Fenced]
    until(lambda: successor.tally.read == 1, lambda: (successor.tally, errors))
    successor.stop()
    thread.join(20)
    ids = Counter(dict(each.headers())["message-id"].decode() for each in read_committed(place, out))
    assert ids == Counter(["m-1-a", "m-1-b"])
