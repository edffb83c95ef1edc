"""A transformer and time: handlers that take long, brokers that are away, a process that stands still."""

import contextlib
import json
import signal
import subprocess
import sys
import threading
import time
import urllib.request
from collections import Counter
from pathlib import Path

import pytest
from brokers_places import KafkaPlace, message, new_queue

from dupeproof.brokers.base import Reject
from dupeproof.brokers.errors import BrokerUnavailable, Fenced
from dupeproof.brokers.health import serve_health
from dupeproof.brokers.kafka import Transformer, forward
from dupeproof.brokers.kafka import transformer as transformers
from dupeproof.core.events import Kind

FREEZER = Path(__file__).with_name("brokers_freezer.py")
QUICK = {"session.timeout.ms": 2_000, "heartbeat.interval.ms": 500}


@pytest.fixture
def place(kafka_server):
    return KafkaPlace(kafka_server.url)


@pytest.fixture
def topics(place):
    """One partition each."""
    names = new_queue(), new_queue()
    for name in names:
        place.declare(name, 1)
    return names


class Running:
    def __init__(self, transformer) -> None:
        self.transformer = transformer
        self.error = None
        self.thread = threading.Thread(target=self._run, daemon=True)
        self.thread.start()

    def _run(self) -> None:
        try:
            self.transformer.run()
        except BaseException as exc:
            self.error = exc

    @property
    def tally(self):
        return self.transformer.tally

    def stop(self) -> None:
        self.transformer.stop()
        self.thread.join(40)
        assert not self.thread.is_alive()
        if self.error is not None:
            raise self.error


@pytest.fixture
def transform(place):
    """Start a transformer that copies; all are stopped when the test is over."""
    running = []

    def start(topic, handler, **options):
        options = {
            "group": "g-" + (topic if isinstance(topic, str) else topic[0]),
            "config": QUICK,
            **options,
        }
        running.append(Running(Transformer(options.pop("url", place.url), topic, handler, **options)))
        return running[-1]

    yield start
    for each in running:
        each.transformer.stop()


def copying(out):
    return lambda message: [forward(message, out)]


def ids_in(place, topic: str, expected: int, seconds: float = 60.0) -> list[str]:
    """Of all messages that are committed, in the order of their partitions."""
    return [dict(each.headers())["message-id"].decode() for each in place.read(topic, expected, seconds)]


def test_a_handler_slower_than_the_transaction_and_the_group_allow_gets_its_messages_done(
    place, topics, transform, until
):
    """Each message takes longer than a transaction may, and than a member may go without a poll."""
    calls = Counter()

    def slow(message):
        calls[message.id] += 1
        time.sleep(3.5)
        return [forward(message, topics[1])]

    place.publish(*(message(topics[0], f"m-{n}") for n in range(3)))
    config = {**QUICK, "max.poll.interval.ms": 3_000}
    running = transform(topics[0], slow, transaction_timeout="1s", transactional_id=topics[0], config=config)
    until(lambda: running.tally.read == 3, lambda: (running.tally, running.error))
    running.stop()
    assert calls == Counter(["m-0", "m-1", "m-2"])
    assert running.tally.aborted == running.tally.reconnects == 0
    assert ids_in(place, topics[1], 3) == ["m-0", "m-1", "m-2"]


def test_what_is_done_is_written_before_a_large_batch_is_through(place, topics, transform, until):
    def slow(message):
        time.sleep(0.4)
        return [forward(message, topics[1])]

    place.publish(*(message(topics[0], f"m-{n}") for n in range(100)))
    running = transform(topics[0], slow)
    until(lambda: running.tally.read >= 4, lambda: (running.tally, running.error))
    assert running.tally.read < 50
    running.stop()


def test_a_message_that_fails_holds_up_its_own_partition_only(place, transform, until):
    topic, out = new_queue(), new_queue()
    place.declare(topic, 2)
    place.declare(out, 1)

    def picky(message):
        if message.body == b"bad":
            raise RuntimeError("not yet")
        return [forward(message, out)]

    place.send(topic, b"bad", partition=0)
    for _ in range(40):
        place.send(topic, b"good", partition=1)
    running = transform(topic, picky, backoff="1m")
    until(lambda: running.tally.read == 40, lambda: (running.tally, running.error))
    running.stop()


def test_a_broker_that_was_away_for_longer_than_a_transaction_may_take_is_survived(
    own_kafka, transform, until
):
    """It stands still, and goes on, in the middle of transactions. Brokers that are killed are three, as in `make kafka-scenario`:
    one alone may complete the abort of a transaction when it is back, without writing the marker of it."""
    server = own_kafka()
    place = KafkaPlace(server.url)
    for name in ("in", "out"):
        place.declare(name, 1)
    stop = threading.Event()
    running = transform(
        "in", copying("out"), url=server.url, transactional_id="copier", transaction_timeout="2s",
        batch=1,
    )  # fmt: skip
    number = iter(range(1_000_000))

    def publish() -> None:
        with place.publisher() as publisher:
            while not stop.wait(0.05):
                with contextlib.suppress(BrokerUnavailable):  # then it may be there or not
                    publisher.publish([message("in", f"m-{next(number)}")])

    sender = threading.Thread(target=publish)
    sender.start()
    for _ in range(3):
        before = running.tally.read
        until(lambda before=before: running.tally.read > before + 5, lambda: (running.tally, running.error))
        server.pause()
        time.sleep(3.0)
        server.resume()
    before = running.tally.read
    until(lambda: running.tally.read > before + 5, lambda: (running.tally, running.error))
    stop.set()
    sender.join(60)
    assert_copied(place, ("in", "out"))
    running.stop()


@pytest.fixture
def freezer(place, topics, tmp_path):
    """A transformer, as a program, that stops itself in the middle of a transaction when the file is there."""
    order = tmp_path / "freeze"
    command = [sys.executable, FREEZER, place.url, *topics, str(order)]
    with subprocess.Popen(command, stdout=subprocess.PIPE, text=True) as process:
        process.order = order
        try:
            yield process
        finally:
            process.kill()


def assert_copied(place, topics) -> None:
    sent = ids_in(place, topics[0], 1)
    assert Counter(ids_in(place, topics[1], len(sent))) == Counter(sent)


def stopped(process) -> bool:
    return Path(f"/proc/{process.pid}/stat").read_text().rpartition(")")[2].split()[0] == "T"


def freeze(place, topics, process, until) -> None:
    """Until it stands still, with a transaction open."""
    process.order.touch()
    number = iter(range(1_000_000))
    until(lambda: place.publish(message(topics[0], f"f-{process.pid}-{next(number)}")) and stopped(process))
    process.order.unlink()


def test_one_that_stood_still_in_a_transaction_goes_on_when_nobody_took_over(place, topics, freezer, until):
    assert freezer.stdout.readline()
    for _ in range(2):
        freeze(place, topics, freezer, until)
        time.sleep(4.0)  # longer than its transaction and its session
        freezer.send_signal(signal.SIGCONT)
        place.publish(message(topics[0], "last"))
        assert_copied(place, topics)
    freezer.send_signal(signal.SIGTERM)
    assert freezer.wait(30) == 0


def test_one_that_stood_still_in_a_transaction_is_fenced_by_its_successor(
    place, topics, freezer, transform, until
):
    assert freezer.stdout.readline()
    freeze(place, topics, freezer, until)
    successor = transform(
        topics[0], copying(topics[1]), group=topics[0], transactional_id=topics[0], transaction_timeout="2s"
    )
    place.publish(message(topics[0], "last"))
    until(lambda: "last" in ids_in(place, topics[1], 10**9, 2.0), lambda: successor.tally)
    freezer.send_signal(signal.SIGCONT)
    out, _ = freezer.communicate(timeout=30)
    assert out.strip().splitlines()[-1] == Fenced.__name__
    place.publish(message(topics[0], "after"))
    assert_copied(place, topics)
    successor.stop()


NAMED = """
import sys
from dupeproof.brokers.kafka import transform
from dupeproof.outbox import Message

def copy(message):
    print(message.id, flush=True)
    yield Message(id=message.id, topic="out", key=None, payload=message.body, headers={})

transform(sys.argv[1], "in", copy, group="copiers", transactional_id="copier", config={"group.protocol": "consumer"})
"""


def test_one_that_takes_the_place_of_a_killed_process_is_not_fenced_by_what_the_group_remembers_of_it(
    own_kafka, transform, until
):
    """The group lists a killed process until its session is over, under the client id of its successor."""
    # Kafka's own are 45 s.
    session = dict.fromkeys(
        ("group.consumer.min.session.timeout.ms", "group.consumer.session.timeout.ms"), 15_000
    )
    server = own_kafka(settings=session)
    place = KafkaPlace(server.url)
    place.declare("in", 12)
    place.declare("out", 1)
    stop = threading.Event()
    number = iter(range(1_000_000))

    def publish() -> None:
        with place.publisher() as publisher:
            while not stop.wait(0.05):
                some = [message("in", f"m-{next(number)}", key=f"k-{each}") for each in range(20)]
                with contextlib.suppress(BrokerUnavailable):  # then it may be there or not
                    publisher.publish(some)

    sender = threading.Thread(target=publish)
    sender.start()
    options = {"url": server.url, "group": "copiers", "config": {"group.protocol": "consumer"}}
    try:
        neighbour = transform("in", copying("out"), **options)
        until(lambda: neighbour.tally.read > 0, lambda: (neighbour.tally, neighbour.error))
        with subprocess.Popen([sys.executable, "-c", NAMED, server.url], stdout=subprocess.PIPE) as killed:
            assert killed.stdout.readline()
            killed.kill()
        successor = transform("in", copying("out"), transactional_id="copier", **options)
        until(lambda: successor.tally.read > 0, lambda: (successor.tally, successor.error))
        server.kill()
        server.start()
        before = successor.tally.read
        until(lambda: successor.tally.read > before + 20, lambda: (successor.tally, successor.error))
        assert successor.error is None
    finally:
        stop.set()
        sender.join(60)
    for each in (successor, neighbour):
        each.stop()


def test_it_returns_within_its_time_when_the_broker_is_gone(own_kafka, transform, until):
    server = own_kafka()
    place = KafkaPlace(server.url)
    for name in ("in", "out"):
        place.declare(name, 1)
    running = transform("in", copying("out"), url=server.url, drain="3s")
    place.publish(message("in", "m-1"))
    until(lambda: running.tally.read == 1, lambda: (running.tally, running.error))
    server.kill()
    began = time.monotonic()
    running.stop()
    assert time.monotonic() - began < 6.0


def test_small_output_is_not_blamed_for_the_size_of_its_batch(place, transform, until):
    """Neither of several messages, nor of one."""
    topic, out = new_queue(), new_queue()
    place.declare(topic, 1)
    place.declare(out, 1, **{"max.message.bytes": "10000"})

    def split(message):
        if message.body == b"huge":
            return [forward(message, out, value=b"x" * 20_000)]
        return [forward(message, out) for _ in range(15)]

    place.publish(*(message(topic, f"m-{n}", b"huge" if n == 12 else b"x" * 1_000) for n in range(30)))
    running = transform(topic, split, max_attempts=2, backoff="50ms")
    until(lambda: running.tally.read == 30, lambda: (running.tally, running.error))
    running.stop()
    assert running.tally.dead == 1
    assert [each.value() for each in place.read(f"{topic}.dead", 1)] == [b"huge"]
    assert Counter(ids_in(place, out, 29 * 15)) == Counter({f"m-{n}": 15 for n in range(30) if n != 12})


@pytest.mark.parametrize(
    "config",
    [
        {"partition.assignment.strategy": "range", **QUICK},
        {"partition.assignment.strategy": "roundrobin", **QUICK},
        {"partition.assignment.strategy": "cooperative-sticky", **QUICK},
        {"group.protocol": "consumer"},
    ],
    ids=lambda config: next(iter(config.values())),
)
def test_members_come_and_go_in_the_middle_of_handlers(place, transform, until, config):
    topic, out = new_queue(), new_queue()
    for name in (topic, out):
        place.declare(name, 4)

    def slow(message):
        time.sleep(0.01)
        return [forward(message, out)]

    keys = [f"k-{n}" for n in range(8)]
    sent = iter(range(1_000_000))

    def more(wanted) -> bool:
        place.publish(*(message(topic, f"{key}-{next(sent)}", key=key) for key in keys))
        return wanted()

    first = transform(topic, slow, config=config, concurrency=2)
    until(lambda: more(lambda: first.tally.read > 20), lambda: (first.tally, first.error))
    second = transform(topic, slow, config=config)
    until(lambda: more(lambda: second.tally.read > 20), lambda: (second.tally, second.error))
    first.stop()
    count = next(sent)
    found = ids_in(place, out, count)
    assert Counter(found) == Counter(ids_in(place, topic, count))
    for key in keys:
        numbers = [int(each.rpartition("-")[2]) for each in found if each.startswith(f"{key}-")]
        assert numbers == sorted(numbers)
    second.stop()


def test_an_async_handler_is_refused():
    async def handle(message):
        return []

    with pytest.raises(Exception, match="plain function"):
        Transformer("127.0.0.1:1", "in", handle, group="g")


def test_what_is_hopeless_is_dead_lettered_at_once(place, topics, transform, until):
    def handle(message):
        raise Reject("never")

    place.publish(message(topics[0], "m-1"))
    running = transform(topics[0], handle)
    until(lambda: running.tally.dead == 1, lambda: (running.tally, running.error))
    running.stop()


def test_a_transformer_says_how_it_is_and_how_far_behind(own_kafka, transform, until, monkeypatch):
    monkeypatch.setattr(transformers, "BETWEEN_REPORTS", 0.05)
    server, seen, gate = own_kafka(), [], threading.Event()
    place = KafkaPlace(server.url)
    for name in ("in", "out"):
        place.declare(name, 1)

    def slow(message):
        gate.wait(30)
        return [forward(message, "out")]

    def lags():
        return [each.count for each in seen if each.kind is Kind.LAG]

    assert Transformer(server.url, "in", slow, group="g").health().trouble == "it was not started"
    place.publish(*(message("in", f"m-{n}") for n in range(50)))
    running = transform("in", slow, url=server.url, group="copiers", batch=1, events=[seen.append])
    health = running.transformer.health
    until(lambda: health().ok and any(lags()), lambda: (health(), seen, running.error))
    assert 0 < max(lags()) <= 50
    assert health().in_hand > 0
    gate.set()
    until(lambda: running.tally.read == 50, lambda: running.tally)
    until(lambda: lags()[-1] == 0 and health().lag == 0, lambda: (health(), lags()))
    assert {(each.namespace, each.name) for each in seen} == {("copiers", "in")}
    with serve_health(running.transformer, port=0) as port:
        with urllib.request.urlopen(f"http://127.0.0.1:{port}/", timeout=5) as answer:
            assert json.load(answer)["ok"]
    assert not health("1ms").ok
    running.stop()
    assert (health().ok, health().trouble) == (False, "it has ended")
