"""Who is to blame, a message or the way to the broker: an outage counts no attempt, and nothing else is taken for one."""

import errno
import http.client
import http.server
import smtplib
import socket
import threading
import time
import urllib.error
import urllib.request

import httpx
import pytest
import redis

from dupeproof import Relay
from dupeproof.core.events import Kind
from dupeproof.outbox import BrokerFull, BrokerUnavailable
from dupeproof.outbox.failures import is_connection_error
from dupeproof.outbox.sources import open_source


class Publisher:
    """Raises what it is told to for a payload, and remembers what it was asked."""

    def __init__(self, errors):
        self.errors = errors
        self.asked = []
        self.attempts = set()

    def __call__(self, message):
        self.asked.append(message.json())
        self.attempts.add(message.attempt)
        if message.json() in self.errors:
            raise self.errors[message.json()]

    @property
    def sent(self):
        return [each for each in self.asked if each not in self.errors]


def until(condition, running, seconds=10.0):
    give_up = time.monotonic() + seconds
    while not condition():
        running.run_once()
        assert time.monotonic() < give_up, "it did not come about"


REFUSALS = [
    urllib.error.HTTPError("http://hook", 400, "Bad Request", http.client.HTTPMessage(), None),
    smtplib.SMTPRecipientsRefused({"a@b": (550, b"no")}),
    smtplib.SMTPDataError(554, b"no"),
    PermissionError(errno.EACCES, "no"),
    OSError("no"),
]


@pytest.mark.parametrize("error", REFUSALS, ids=lambda error: type(error).__name__)
def test_an_oserror_that_is_an_answer_counts_against_its_message(box, relay, error):
    box.add("bad", key="bad")
    for number in range(20):
        box.add(number, key=f"k{number}")
    publisher = Publisher({"bad": error})
    with relay(box.url, publisher=publisher, max_attempts=2, backoff="1ms") as running:
        until(lambda: running.status().dead == 1, running)
        assert box.waiting() == 0
    assert sorted(publisher.sent) == list(range(20))
    assert publisher.asked.count("bad") == 2


def closed_port():
    with socket.create_server(("127.0.0.1", 0)) as server:
        return server.getsockname()[1]


def refused_by_urllib():
    urllib.request.urlopen(f"http://127.0.0.1:{closed_port()}/", timeout=5)


def refused_by_httpx():
    httpx.get(f"http://127.0.0.1:{closed_port()}/")


def refused_by_redis():
    redis.Redis(port=closed_port()).ping()


def refused_by_smtplib():
    smtplib.SMTP("127.0.0.1", closed_port())


def not_resolved():
    socket.getaddrinfo("there.is.no.such.host.invalid", 80)


def timed_out():
    with socket.create_server(("127.0.0.1", 0)) as server:
        urllib.request.urlopen(f"http://127.0.0.1:{server.getsockname()[1]}/", timeout=0.05)


def unreachable():
    raise OSError(errno.EHOSTUNREACH, "No route to host")


OUTAGES = [
    refused_by_urllib,
    refused_by_httpx,
    refused_by_redis,
    refused_by_smtplib,
    not_resolved,
    timed_out,
    unreachable,
]


@pytest.mark.parametrize("attempt", OUTAGES, ids=lambda attempt: attempt.__name__)
def test_what_drivers_raise_when_nobody_is_reached_is_an_outage(attempt):
    with pytest.raises(Exception) as caught:
        attempt()
    assert is_connection_error(caught.value)


def test_what_a_server_answers_is_no_outage():
    class Refusing(http.server.BaseHTTPRequestHandler):
        def do_GET(self):
            self.send_error(503)

        def log_message(self, *_):
            pass

    with http.server.HTTPServer(("127.0.0.1", 0), Refusing) as server:
        threading.Thread(target=server.handle_request, daemon=True).start()
        with pytest.raises(urllib.error.HTTPError) as caught:
            urllib.request.urlopen(f"http://127.0.0.1:{server.server_port}/", timeout=10)
        caught.value.close()
    assert not is_connection_error(caught.value)


def test_when_the_way_is_closed_no_message_is_blamed(box, relay):
    box.add("a1", "a2", key="a")
    box.add("b1", key="b")
    publisher = Publisher(dict.fromkeys(["a1", "a2", "b1"], ConnectionRefusedError()))
    with relay(box.url, publisher=publisher, max_attempts=1, backoff="1ms") as running:
        for _ in range(3):
            with pytest.raises(ConnectionRefusedError):
                until(lambda: False, running)
        assert publisher.asked.count("a2") == 0
        assert (running.status().dead, running.status().backlog) == (0, 3)
        publisher.errors.clear()
        until(lambda: box.waiting() == 0, running)
    assert publisher.attempts == {1}


def test_a_publisher_that_says_it_is_down_is_believed_at_once(box, relay):
    box.add(*range(10))
    publisher = Publisher(dict.fromkeys(range(10), BrokerUnavailable("closed for today")))
    with relay(box.url, publisher=publisher, max_attempts=1, backoff="1h") as running:
        with pytest.raises(BrokerUnavailable):
            running.run_once()
        assert len(publisher.asked) == 1
        assert running.status().dead == 0


def test_one_that_cannot_be_reached_is_blamed_when_others_can(box, relay):
    """As for webhooks, where each message goes to another host."""
    for number in range(40):
        box.add(number, key=f"k{number}")
    publisher = Publisher(dict.fromkeys([3, 4, 5, 6, 7], ConnectionRefusedError("no")))
    with relay(
        box.url, publisher=publisher, max_attempts=3, backoff="1ms", max_backoff="1ms", batch=8
    ) as running:
        give_up = time.monotonic() + 20
        number = 40
        while running.status().dead < 5:
            box.add(number, key=f"k{number}")
            number += 1
            try:
                running.run_once()
            except ConnectionRefusedError:
                assert time.monotonic() < give_up, "nobody was ever blamed"
    assert set(publisher.sent) >= {*range(40)} - {3, 4, 5, 6, 7}


def test_an_outage_is_told_of_and_holds_up_no_other_key_for_ever(box):
    box.add("first", key="a")
    publisher, events = Publisher({"first": BrokerUnavailable("no")}), []
    running = Relay(
        box.url, publisher=publisher, events=[events.append], backoff="10ms", poll="10ms", max_attempts=1
    )
    thread = threading.Thread(target=running.run)
    thread.start()
    try:
        give_up = time.monotonic() + 20
        while not any(event.kind is Kind.PUBLISHER_DOWN for event in events):
            assert time.monotonic() < give_up
            time.sleep(0.01)
        box.add(*range(30))
        while len(set(publisher.sent)) < 30:
            assert time.monotonic() < give_up
            time.sleep(0.01)
    finally:
        running.stop()
        thread.join()
    source = open_source(box.url)
    assert (source.status().dead, box.waiting()) == (0, 1)
    source.close()


class Choking:
    """A publisher of batches that raises when one of its messages is among them."""

    def __init__(self, *bad):
        self.bad = bad
        self.sent = []

    def publish(self, messages):
        if any(message.json() in self.bad for message in messages):
            raise ValueError("cannot serialize")
        self.sent += [message.json() for message in messages]
        return [None for _ in messages]


def test_a_message_at_which_a_publisher_of_batches_chokes_is_found(box):
    for number in range(20):
        box.add(number, key=f"k{number}")
    publisher = Choking(3)
    with Relay(box.url, publisher=publisher, max_attempts=2, backoff="1ms") as running:
        give_up = time.monotonic() + 20
        number = 20
        while running.status().dead == 0:
            assert time.monotonic() < give_up
            box.add(number, f"{number}", key=f"k{number}")
            number += 1
            try:
                running.run_once()
            except ValueError:
                continue
    assert {*range(20)} - {3} <= {*publisher.sent}


class Queues:
    """A publisher of batches to queues, some of them full: answered for each message, or raised for all."""

    def __init__(self, full, *, raises=False):
        self.full = full
        self.raises = raises
        self.asked = []
        self.sent = []

    def publish(self, messages):
        self.asked += [each.json() for each in messages]
        fault = BrokerFull("no room")
        if self.raises and any(each.topic in self.full for each in messages):
            raise fault
        self.sent += [each.json() for each in messages if each.topic not in self.full]
        return [fault if each.topic in self.full else None for each in messages]


def test_a_topic_without_room_holds_up_no_other_and_is_not_blamed(box):
    """Also when more messages wait for it than go into a batch."""
    for number in range(60):
        box.add(number, topic="full")
    box.add("other", topic="other")
    publisher, told = Queues({"full"}), []
    relay = Relay(
        box.url, publisher=publisher, batch=10, max_attempts=1, backoff="10ms", events=[told.append]
    )
    thread = threading.Thread(target=relay.run)
    thread.start()
    wait(lambda: publisher.sent == ["other"] and publisher.asked.count(0) > 3)
    assert relay.status().dead == 0
    publisher.full = set()
    wait(lambda: len(publisher.sent) == 61)
    relay.stop()
    thread.join(20)
    assert relay.status().backlog == 0
    assert {each.kind for each in told} >= {Kind.PUBLISHER_DOWN, Kind.SENT}
    assert not {each.kind for each in told} & {Kind.FAILED, Kind.DEAD}


def test_a_publisher_that_raises_that_there_is_no_room_is_not_asked_without_a_pause(box):
    box.add("m", topic="full")
    publisher = Queues({"full"}, raises=True)
    with Relay(box.url, publisher=publisher, max_attempts=1, backoff="1m") as running:
        with pytest.raises(BrokerFull):
            running.run_once()
        assert running.run_once() == 0
        assert (running.status().dead, running.status().backlog) == (0, 1)
    assert publisher.asked == ["m"]


def wait(condition, seconds=20.0):
    give_up = time.monotonic() + seconds
    while not condition():
        assert time.monotonic() < give_up, "it did not come about"
        time.sleep(0.02)
