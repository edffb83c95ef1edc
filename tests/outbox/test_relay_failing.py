"""What fails is tried again, later each time; what never works is dead-lettered; only its own key waits."""

import itertools
import time

import pytest

from dupeproof import ConfigError, Relay
from dupeproof.core.events import Kind
from dupeproof.outbox import HeldBack
from dupeproof.outbox.sources import open_source


class Flaky:
    """Fails for the payloads it is told to, and remembers what it was asked."""

    def __init__(self, *bad, error=ValueError):
        self.bad = set(bad)
        self.error = error
        self.asked = []
        self.attempts = set()

    def __call__(self, message):
        self.asked.append(message.json())
        self.attempts.add(message.attempt)
        if message.json() in self.bad:
            raise self.error(f"cannot send {message.json()}")

    @property
    def sent(self):
        return [each for each in self.asked if each not in self.bad]


def until(condition, running, seconds=10.0):
    give_up = time.monotonic() + seconds
    while not condition():
        running.run_once()
        assert time.monotonic() < give_up, "it did not come about"


def test_only_the_key_that_fails_waits(box, relay):
    box.add("a1", "a2", key="a")
    box.add("b1", "b2", key="b")
    box.add("no1", "no2")
    publisher = Flaky("a1", "no1")
    with relay(box.url, publisher=publisher, backoff="1s") as running:
        assert running.run_once() == 3
        assert sorted(publisher.asked) == ["a1", "b1", "b2", "no1", "no2"]
        assert running.status().failing == 2
        publisher.bad.clear()
        until(lambda: box.waiting() == 0, running)
        assert [each for each in publisher.asked if each.startswith("a")] == ["a1", "a1", "a2"]
        assert running.status().failing == 0


def test_each_failure_waits_twice_as_long(box, relay):
    box.add("a1", key="a")
    times = []

    def fail(message):
        times.append((time.monotonic(), message.attempt))
        raise ValueError

    with relay(box.url, publisher=fail, backoff="100ms", max_attempts=4) as running:
        until(lambda: len(times) == 4, running)
    assert [attempt for _, attempt in times] == [1, 2, 3, 4]
    gaps = [after - before for (before, _), (after, _) in itertools.pairwise(times)]
    for gap, wanted in zip(gaps, (0.1, 0.2, 0.4), strict=True):
        assert gap >= wanted * 0.75


def test_a_dead_message_stops_its_key_until_it_is_dropped(box, relay):
    [poison, _] = box.add("a1", "a2", key="a")
    publisher = Flaky("a1")
    source = open_source(box.url)
    with relay(box.url, publisher=publisher, backoff="1ms", max_attempts=2) as running:
        until(lambda: running.status().dead == 1, running)
        box.add("a3", key="a")
        box.add("b1", key="b")
        until(lambda: "b1" in publisher.sent, running)
        assert running.run_once() == 0
        [dead] = source.dead(10)
        assert (dead.id, dead.topic, dead.key, dead.attempts) == (poison, "orders", "a", 2)
        assert dead.error == "ValueError: cannot send a1"
        assert source.drop(["unknown"]) == []
        assert source.drop([poison]) == [poison]
        running.run_once()
    assert publisher.sent == ["b1", "a2", "a3"]
    source.close()


def test_a_dead_message_that_is_retried_takes_its_old_place(box, relay):
    box.add("a1", "a2", key="a")
    publisher = Flaky("a1")
    source = open_source(box.url)
    with relay(box.url, publisher=publisher, backoff="1ms", max_attempts=1) as running:
        running.run_once()
        assert running.status().dead == 1
        publisher.bad.clear()
        assert len(source.retry(None)) == 1
        running.run_once()
    assert publisher.sent == ["a1", "a1", "a2"]
    assert source.status().dead == 0
    source.close()


def test_a_key_may_go_on_after_a_dead_message(box, relay):
    box.add("a1", "a2", key="a")
    publisher = Flaky("a1")
    with relay(box.url, publisher=publisher, max_attempts=1, after_dead="go_on") as running:
        running.run_once()
        assert (running.status().dead, running.status().failing) == (1, 0)
        running.run_once()
    assert publisher.sent == ["a2"]


def test_a_message_without_a_key_that_is_dead_stops_nobody(box, relay):
    box.add("x", "y")
    publisher = Flaky("x")
    with relay(box.url, publisher=publisher, max_attempts=1) as running:
        running.run_once()
        assert (running.status().dead, running.status().failing, box.waiting()) == (1, 0, 0)
    assert publisher.sent == ["y"]


class Batches:
    """A publisher of batches that fails some of them."""

    def __init__(self):
        self.batches = []

    def publish(self, messages):
        self.batches.append([message.json() for message in messages])
        if len(self.batches) == 1:
            return [ValueError("no") if message.json() == 1 else HeldBack() for message in messages]
        return [None for _ in messages]


def test_a_publisher_answers_for_each_message_of_a_batch(box):
    box.add(1, 2, 3, key="k")
    publisher = Batches()
    with Relay(box.url, publisher=publisher, backoff="1ms") as running:
        until(lambda: box.waiting() == 0, running)
    assert publisher.batches[0] == publisher.batches[-1] == [1, 2, 3]


def test_a_publisher_that_answers_for_too_few_is_told_so(box):
    class Short:
        def publish(self, messages):
            return []

    box.add(1)
    with Relay(box.url, publisher=Short()) as running, pytest.raises(ConfigError, match="answer for each"):
        running.run_once()
    assert box.waiting() == 1


def test_errors_are_kept_without_secrets(box):
    box.add(1, key="k")

    def fail(message):
        raise RuntimeError("amqp://me:hunter2@host/ refused, password=hunter3 Authorization: Bearer hunter4")

    source = open_source(box.url)
    with Relay(box.url, publisher=fail, max_attempts=1) as running:
        running.run_once()
    [dead] = source.dead(1)
    assert "hunter" not in dead.error
    assert dead.error.startswith("RuntimeError: amqp://me:***@host/ refused")
    source.close()


def test_events_tell_what_happened(box):
    box.add("a1", "a2", key="a")
    box.add("b1", key="b")
    events = []
    publisher = Flaky("a1")
    with Relay(
        box.url, publisher=publisher, backoff="1ms", max_attempts=2, events=[events.append]
    ) as running:
        until(lambda: running.status().dead == 1, running)
    kinds = [event.kind for event in events]
    assert sorted(kinds) == [Kind.DEAD, Kind.FAILED, Kind.SENT]
    failed = next(event for event in events if event.kind is Kind.FAILED)
    assert (failed.name, failed.attempt) == ("orders", 1)
    assert failed.key not in ("", "a")


def test_sent_messages_are_kept_for_a_time(box, relay):
    box.add(1, 2, key="k")
    with relay(box.url, publisher=lambda message: None, keep="50ms") as running:
        running.run_once()
        assert (running.status().kept, running.status().backlog) == (2, 0)
    source = open_source(box.url)
    gone = 0
    while gone < 2:
        gone += source.purge(1)
    assert source.status().kept == 0
    source.close()


async def _async_publisher(message):
    pass


@pytest.mark.parametrize(
    ("options", "text"),
    [
        ({"publisher": _async_publisher}, "AsyncRelay"),
        ({"publisher": 5}, "function of one message"),
        ({"source": "redis://localhost"}, "postgresql://"),
        ({"source": "mongodb://me:hunter2@host"}, "postgresql://"),
        ({"source": 5}, "postgresql://"),
        ({"batch": 0}, "batch"),
        ({"lease": "x"}, "lease"),
        ({"poll": 0}, "poll"),
        ({"max_attempts": 0}, "max_attempts"),
        ({"after_dead": "panic"}, "after_dead"),
    ],
)
def test_wrong_options_say_what_to_do(tmp_path, options, text):
    given = {"source": f"sqlite:///{tmp_path}/shop.db", "publisher": print} | options
    with pytest.raises(ConfigError, match=text) as caught:
        Relay(given.pop("source"), **given)
    assert "hunter" not in str(caught.value)
