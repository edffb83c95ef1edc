"""Dead letters of every broker: found, looked at, put back and dropped, by the command and by hand."""

import os
import signal
import sqlite3
import subprocess
import sys
import time
from datetime import UTC, datetime
from typing import NamedTuple

import msgspec
import pytest
from brokers_places import PLACES, SERVERS, ClusterStreamPlace, new_queue
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from dupeproof import ConfigError, Once, Outbox, Relay
from dupeproof.brokers import dead_letters as letters_of
from dupeproof.brokers.base import UNGUARDED, Reject
from dupeproof.brokers.kafka.dead import KafkaDeadLetters
from dupeproof.brokers.kafka.handled import Handled, read
from dupeproof.cli.app import run as run_command
from dupeproof.outbox.messages import Message
from dupeproof.testing import Crashed, crash_at

BROKERS = {name: pytest.param(name, marks=pytest.mark.server(SERVERS[name], "postgres")) for name in SERVERS}
each_broker = pytest.mark.parametrize("place", [*BROKERS.values()], indirect=True)


class Ran(NamedTuple):
    code: int
    out: str
    err: str

    @property
    def json(self):
        return msgspec.json.decode(self.out)


@pytest.fixture
def dupeproof(capsys, monkeypatch):
    monkeypatch.delenv("DUPEPROOF_URL", raising=False)

    def command(*arguments):
        capsys.readouterr()
        code = run_command(["dead", *map(str, arguments)])
        return Ran(code, *capsys.readouterr())

    return command


@pytest.fixture
def is_async():
    return False


@pytest.fixture
def bury(place, run, until):
    """Have messages dead-lettered by a consumer of ours."""

    def dead(queue: str, *messages: Message, **options) -> None:
        def reject(message):
            raise Reject("the amount is missing")

        consumer = place.consumer(
            queue, reject, once=Once("memory://", namespace=queue), **{"create": False, **options}
        )
        running = run(consumer)
        assert place.publish(*messages) == [None] * len(messages)
        until(lambda: consumer.tally.dead == len(messages) or running.ended, lambda: running.error)
        running.stop()

    return dead


@pytest.fixture
def handled(place, run, until):
    """What a handler is given of a queue, after those before: so many, and whatever comes shortly after."""

    def read(queue: str, expected: int, **options) -> list:
        found: list = []
        group = {} if place.name == "rabbitmq" else {"group": queue}
        running = run(place.consumer(queue, found.append, once=UNGUARDED, **group, **options))
        until(lambda: len(found) >= expected or running.ended, lambda: (found, running.error))
        time.sleep(0.2)
        running.stop()
        return found

    return read


def sent(queue: str, number: int) -> Message:
    return Message(
        id=f"m-{number}",
        topic=queue,
        key="secret-key",
        payload=b'{"amount": %d}' % number,
        headers={"tenant": "eu", "umlaut": "ü"},
        type="order.placed",
    )


def ids(ran: Ran) -> list[str]:
    return [each["id"] for each in ran.json]


@each_broker
def test_the_list_says_what_died_and_why_and_show_has_the_body_only_on_demand(place, queue, bury, dupeproof):
    bury(queue, *(sent(queue, number) for number in range(3)))
    ran = dupeproof("list", place.url, queue, "--json")
    assert (ran.code, ids(ran)) == (0, ["m-0", "m-1", "m-2"])
    first = ran.json[0]
    assert first["reason"] == "Reject: the amount is missing"
    assert (first["attempts"], first["type"], first["size"], first["queue"]) == (1, "order.placed", 13, queue)
    died = datetime.fromisoformat(first["died"])
    assert abs((datetime.now(UTC) - died).total_seconds()) < 60
    assert len(first["key"]) == 12
    assert len({each["key"] for each in ran.json}) == 1
    shown = dupeproof("list", place.url, queue).out
    assert "m-2" in shown
    assert "order.placed" in shown
    assert "secret-key" not in shown + ran.out
    assert ids(dupeproof("list", place.url, queue, "--json", "--limit", 2)) == ["m-0", "m-1"]
    assert ids(dupeproof("list", place.url, f"{queue}.dead", "--json")) == ["m-0", "m-1", "m-2"]
    plain = dupeproof("show", place.url, queue, "m-1")
    assert "tenant: eu" in plain.out
    assert "amount" not in plain.out.replace("the amount is missing", "")
    assert "secret-key" not in plain.out
    whole = dupeproof("show", place.url, queue, "m-1", "--body")
    assert '{"amount": 1}' in whole.out
    assert "secret-key" in whole.out
    [facts] = dupeproof("show", place.url, queue, "m-1", "--body", "--json").json
    assert (facts["headers"], facts["body"]) == ({"tenant": "eu", "umlaut": "ü"}, '{"amount": 1}')


@each_broker
def test_one_from_the_middle_is_put_back_as_it_was_and_the_others_stay(
    place, queue, bury, handled, dupeproof
):
    bury(queue, *(sent(queue, number) for number in range(4)))
    ran = dupeproof("retry", place.url, queue, "m-2")
    assert (ran.code, ran.out) == (0, "put back: 1\n")
    assert ids(dupeproof("list", place.url, queue, "--json")) == ["m-0", "m-1", "m-3"]
    [again] = handled(queue, 1)
    assert again.id == "m-2"
    assert (again.key, again.type, again.body) == ("secret-key", "order.placed", b'{"amount": 2}')
    assert again.headers == {"tenant": "eu", "umlaut": "ü"}
    assert (again.topic, again.attempt) == (queue, 1)
    assert ids(dupeproof("list", place.url, queue, "--json")) == ["m-0", "m-1", "m-3"]


@each_broker
def test_those_dropped_are_gone_and_those_put_back_keep_their_order(place, queue, bury, handled, dupeproof):
    bury(queue, *(sent(queue, number) for number in range(5)))
    assert dupeproof("drop", place.url, queue, "m-1", "m-3", "--json").json["dropped"] == ["m-1", "m-3"]
    assert ids(dupeproof("list", place.url, queue, "--json")) == ["m-0", "m-2", "m-4"]
    assert dupeproof("retry", place.url, queue, "--all").out == "put back: 3\n"
    assert dupeproof("list", place.url, queue).out == f"no dead letters in {queue}.dead\n"
    assert dupeproof("retry", place.url, queue, "--all").out == "put back: 0\n"
    assert [each.id for each in handled(queue, 3)] == ["m-0", "m-2", "m-4"]


@each_broker
def test_one_that_dies_again_has_had_all_its_attempts(place, queue, bury, run, until, dupeproof):
    bury(queue, sent(queue, 0))
    dupeproof("retry", place.url, queue, "m-0")
    attempts = []

    def fail(message):
        attempts.append(message.attempt)
        raise ValueError("still wrong")

    consumer = place.consumer(
        queue, fail, once=Once("memory://", namespace=queue), max_attempts=3, backoff="20ms"
    )
    running = run(consumer)
    until(lambda: consumer.tally.dead == 1, lambda: (attempts, running.error))
    running.stop()
    assert attempts == [1, 2, 3]
    [letter] = dupeproof("list", place.url, queue, "--json").json
    assert (letter["id"], letter["attempts"]) == ("m-0", 3)
    assert "still wrong" in letter["reason"]


@each_broker
def test_a_message_of_somebody_else_is_a_dead_letter_like_any_other(place, queue, handled, dupeproof):
    dead = f"{queue}.dead"
    place.declare(dead)
    place.send_raw(dead, b"no headers of ours", {"id": "foreign-1", "x-app": "shop"})
    place.send_raw(dead, b"no id", {"x-app": "shop"})
    first, second = dupeproof("list", place.url, queue, "--json").json
    assert (first["id"], first["reason"], first["attempts"], first["queue"]) == ("foreign-1", "", None, queue)
    assert second["id"] == second["place"]
    assert "no id" in dupeproof("show", place.url, queue, second["id"], "--body").out
    ran = dupeproof("retry", place.url, queue, "foreign-1", second["id"])
    assert ran.code == 0, ran.err
    found = sorted(handled(queue, 2, missing_id="pass"), key=lambda each: each.body, reverse=True)
    assert [(each.id, each.body, each.headers) for each in found] == [
        (None, b"no id", {"x-app": "shop"}),
        ("foreign-1", b"no headers of ours", {"x-app": "shop"}),
    ]


@each_broker
def test_copies_under_one_id_go_together_and_those_that_differ_are_named_by_place(
    place, queue, handled, dupeproof
):
    dead = f"{queue}.dead"
    place.declare(dead)
    for body in (b"one", b"one"):
        place.send_raw(dead, body, {"id": "same"})
        time.sleep(0.35)  # longer than a stream of NATS looks for duplicates in these tests
    for body in (b"two", b"three"):
        place.send_raw(dead, body, {"id": "other"})
        time.sleep(0.35)
    ran = dupeproof("retry", place.url, queue, "same", "other")
    assert ran.code == 2
    letters = dupeproof("list", place.url, queue, "--json").json
    assert len(letters) == 4, "nothing was changed"
    assert all(each["place"] in ran.err for each in letters if each["id"] == "other")
    assert len(dupeproof("show", place.url, queue, "other", "--json").json) == 2
    assert dupeproof("retry", place.url, queue, "same").out == "put back: 2\n"
    assert dupeproof("retry", place.url, queue, letters[3]["place"]).out == "put back: 1\n"
    assert sorted(each.body for each in handled(queue, 3)) == [b"one", b"one", b"three"]
    [left] = dupeproof("list", place.url, queue, "--json").json
    assert left["place"] == letters[2]["place"]


@each_broker
def test_a_command_that_is_killed_can_be_repeated_and_the_effect_happens_once(
    place, queue, bury, ledger, run, until, dupeproof
):
    bury(queue, *(sent(queue, number) for number in range(3)))
    command = [sys.executable, "-m", "dupeproof", "dead", "retry", place.url, queue, "--all"]
    atomic = place.name == "redis_streams"
    killed = subprocess.run(
        command,
        env={**os.environ, "DUPEPROOF_CRASH_AT": "after-publish-before-removal:1"},
        capture_output=True,
        check=False,
        timeout=60,
    )
    assert killed.returncode == (0 if atomic else -signal.SIGKILL), killed.stderr
    left = len(dupeproof("list", place.url, queue, "--json").json)
    assert left == (0 if atomic else 3)
    assert dupeproof("retry", place.url, queue, "--all").out == f"put back: {left}\n"
    inbox = ledger.inbox(is_async=False, group=new_queue())
    consumer = place.consumer(queue, ledger.write, inbox=inbox)
    running = run(consumer)
    until(lambda: len(ledger.rows()) == 3 or running.ended, lambda: (ledger.rows(), running.error))
    time.sleep(0.3)
    running.stop()
    assert ledger.counts() == {"m-0": 1, "m-1": 1, "m-2": 1}
    assert dupeproof("list", place.url, queue, "--json").json == []


@pytest.mark.server("redis_cluster")
def test_on_a_cluster_a_crash_in_between_leaves_the_letter(redis_cluster_url, dupeproof):
    place = ClusterStreamPlace(redis_cluster_url.replace("redis://", "redis+cluster://"))
    queue = new_queue()
    place.declare(queue)
    place.send_raw(f"{queue}.dead", b"{}", {"id": "m-1"})
    with (
        pytest.raises(Crashed),
        crash_at("after-publish-before-removal"),
        letters_of(place.url, queue) as letters,
    ):
        letters.retry(["m-1"])
    assert dupeproof("retry", place.url, queue, "m-1").out == "put back: 1\n"
    with place.client() as client:
        assert [fields[b"id"] for _, fields in client.xrange(queue)] == [b"m-1", b"m-1"]
    assert dupeproof("list", place.url, queue, "--json").json == []


@each_broker
def test_without_its_queue_a_letter_stays_where_it_is(place, dupeproof):
    queue = new_queue()
    place.declare(f"{queue}.dead")
    place.send_raw(f"{queue}.dead", b"{}", {"id": "m-1"})
    ran = dupeproof("retry", place.url, queue, "m-1")
    assert (ran.code, ran.out) == (1, "put back: 0\n")
    assert queue in ran.err
    assert ids(dupeproof("list", place.url, queue, "--json")) == ["m-1"]


@each_broker
def test_what_is_not_there_is_said(place, queue, dupeproof):
    assert dupeproof("list", place.url, queue).out == f"no dead letters in {queue}.dead\n"
    ran = dupeproof("list", place.url, "never-heard-of")
    assert (ran.code, ran.out) == (2, "")
    assert "'never-heard-of'" in ran.err
    ran = dupeproof("retry", place.url, queue, "m-1")
    assert (ran.code, ran.err) == (1, "no dead letter: m-1\n")
    assert dupeproof("show", place.url, queue, "m-1").code == 1
    assert dupeproof("drop", place.url, queue).code == 2
    assert dupeproof("drop", place.url, queue, "m-1", "--all").code == 2


@pytest.mark.parametrize(
    "url",
    [
        "amqp://me:hunter2@127.0.0.1:1/",
        "127.0.0.1:1",
        "redis://:hunter2@127.0.0.1:1/0",
        "nats://me:hunter2@127.0.0.1:1",
    ],
)
def test_a_broker_that_is_down_is_told_in_time_and_without_its_password(dupeproof, url):
    began = time.monotonic()
    ran = dupeproof("list", url, "orders")
    assert (ran.code, ran.out) == (2, "")
    assert "cannot be reached" in ran.err
    assert "hunter2" not in ran.err
    assert time.monotonic() - began < 15


@pytest.mark.parametrize(
    ("url", "text"),
    [
        ("postgresql://me:hunter2@127.0.0.1/shop", "dupeproof outbox dead"),
        ("http://me:hunter2@127.0.0.1/", "is no broker"),
        ("orders", "is no broker"),
        ("memory://", "is no broker"),
    ],
)
def test_other_addresses_are_refused_with_those_there_are(dupeproof, url, text):
    ran = dupeproof("list", url, "orders")
    assert (ran.code, ran.err.count("\n")) == (2, 1)
    assert text in ran.err
    assert "hunter2" not in ran.err


WITHOUT = """
import sys
sys.modules[{driver!r}] = None
from dupeproof.cli.app import run
sys.exit(run(["dead", "list", {url!r}, "orders"]))
"""


@pytest.mark.parametrize(
    ("driver", "url", "extra"),
    [
        ("pika", "amqp://127.0.0.1:1/", "rabbitmq"),
        ("confluent_kafka", "127.0.0.1:1", "kafka"),
        ("redis", "redis://127.0.0.1:1/0", "redis"),
        ("nats", "nats://127.0.0.1:1", "nats"),
    ],
)
def test_a_driver_that_is_missing_is_named_with_its_extra(driver, url, extra):
    code = WITHOUT.format(driver=driver, url=url)
    ran = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=False)
    assert (ran.returncode, ran.stdout, ran.stderr.count("\n")) == (2, "", 1), ran.stderr
    assert f'pip install "dupeproof[{extra}]"' in ran.stderr


@pytest.mark.parametrize("place", ["memory", *BROKERS.values()], indirect=True)
def test_the_type_of_an_event_reaches_the_handler_and_its_dead_letter(
    place, queue, tmp_path, run, until, dead_letters
):
    url = f"sqlite:///{tmp_path}/shop.db"
    outbox = Outbox()
    with sqlite3.connect(tmp_path / "shop.db") as connection:
        outbox.create_schema(connection)
        outbox.add(connection, topic=queue, payload={"order": 1}, type="order.placed")
    seen = []

    def reject(message):
        seen.append(message.type)
        raise Reject("never")

    consumer = place.consumer(queue, reject, once=Once("memory://", namespace=queue))
    running = run(consumer)
    with place.publisher() as publisher, Relay(url, publisher=publisher) as relay:
        relay.run_once()
    until(lambda: consumer.tally.dead == 1 or running.ended, lambda: running.error)
    running.stop()
    assert seen == ["order.placed"]
    assert [each.type for each in dead_letters(queue, 1)] == ["order.placed"]


def test_many_are_named_in_a_list_and_never_in_one_text():
    with (
        pytest.raises(ConfigError, match="a list of texts"),
        letters_of("amqp://127.0.0.1:1/", "q") as letters,
    ):
        letters.retry("m-1")


@pytest.mark.server("nats")
def test_a_letter_of_a_subject_with_wildcards_goes_back_to_its_own_subject(
    nats_server, run, until, dupeproof
):
    place = PLACES["nats"](nats_server.url)
    prefix = new_queue()
    pattern, subject = f"{prefix}.*", f"{prefix}.placed"

    def reject(message):
        raise Reject("never")

    consumer = place.consumer(pattern, reject, once=UNGUARDED, create=True)
    running = run(consumer)
    until(lambda: place.publish(sent(subject, 1)) == [None])
    until(lambda: consumer.tally.dead == 1)
    assert dupeproof("retry", place.url, pattern, "m-1").out == "put back: 1\n"
    until(lambda: consumer.tally.dead == 2)
    running.stop()
    [letter] = dupeproof("list", place.url, pattern, "--json").json
    assert (letter["id"], letter["queue"]) == ("m-1", subject)


@pytest.mark.server("kafka")
def test_of_two_commands_on_a_topic_the_first_is_refused_and_changes_nothing(kafka_server, dupeproof):
    place = PLACES["kafka"](kafka_server.url)
    queue = new_queue()
    place.declare(queue)
    place.declare(f"{queue}.dead")
    for number in range(3):
        place.send_raw(f"{queue}.dead", b"{}", {"id": f"m-{number}"})
    first = KafkaDeadLetters(place.url, queue, None)
    first.open()
    letters = [*first.scan(10)]
    first.put_back(letters[:1])
    assert len(letters_of(place.url, queue).retry().done) == 2
    with pytest.raises(ConfigError, match="another command"):
        first.put_back(letters[1:])
    first.close()
    assert len(place.read(queue, 3)) == 3
    assert dupeproof("list", place.url, queue, "--json").json == []


@settings(suppress_health_check=[HealthCheck.too_slow], deadline=None)
@given(st.lists(st.tuples(st.integers(0, 60), st.integers(1, 4)), max_size=30), st.integers(0, 20))
def test_what_is_done_with_is_told_by_any_order_of_ranges_and_read_as_it_was_written(ranges, position):
    known = Handled(position)
    for first, length in ranges:
        known = known.and_also([(first, first + length)])
    expected = {*range(position)} | {n for first, length in ranges for n in range(first, first + length)}
    assert {n for n in range(80) if n in known} == {n for n in expected if n < 80}
    assert read(known.position, known.text) == known
    assert known.position not in expected


def test_more_places_than_kafka_can_remember_are_refused():
    known = Handled(0).and_also([(number, number + 1) for number in range(1, 4_000, 2)])
    with pytest.raises(ConfigError, match="the oldest first"):
        _ = known.text


def test_a_position_that_others_have_moved_counts_as_it_is():
    assert read(7, "by hand") == Handled(7)
    assert read(-1_001, "") == Handled(0)
