"""Errors that cannot be written down, rows nobody should have written, texts that only look equal: nothing stops a relay."""

import os
import resource
import signal
import threading
import time

import pytest
from outbox_boxes import Box, connect_to_mariadb

from dupeproof import ConfigError, Relay, StoreUnavailable
from dupeproof.outbox.failures import described
from dupeproof.outbox.reports import Delivered, Failure
from dupeproof.outbox.sources import open_source


class Speechless(Exception):
    def __str__(self):
        raise RuntimeError


@pytest.mark.parametrize(
    "error", [ValueError("cannot read 'caf\udce9.txt'"), Speechless(), ValueError("a\0b")]
)
def test_an_error_that_cannot_be_written_down_counts_as_any_other(box, relay, error):
    box.add("bad", key="k")
    box.add("good", key="other")
    got = []

    def publish(message):
        if message.key == "k":
            raise error
        got.append(message.json())

    with relay(box.url, publisher=publish, max_attempts=1) as running:
        assert running.run_once() == 1
        assert running.status().dead == 1
    assert got == ["good"]


def test_headers_that_nobody_can_read_stop_nobody(box, relay, caplog):
    box.add("odd", headers={"a": "b"})
    box.execute("UPDATE dupeproof_outbox SET headers = '{'")
    box.add("plain")
    got = []
    with relay(box.url, publisher=got.append) as running:
        assert running.run_once() == 2
    assert {message.json(): message.headers for message in got} == {"odd": {}, "plain": {}}
    assert "are not JSON" in caplog.text


def test_keys_and_ids_are_compared_to_the_last_space(box, relay):
    box.add("stuck", key="a", id="id")
    got = []

    def publish(message):
        if message.key == "a":
            raise ValueError
        got.append(message.json())

    with relay(box.url, publisher=publish, max_attempts=1) as running:
        running.run_once()
        box.add("free", key="a ")
        running.run_once()
    assert got == ["free"]
    source = open_source(box.url)
    assert source.drop(["id "]) == []
    assert source.drop(["id"]) == ["id"]
    source.close()


def test_what_was_sent_late_is_dead_no_longer(box):
    """Its relay was too slow, and the next one gave the message up; but it did go out."""
    [first, _] = box.add("a1", "a2", key="a")
    source = open_source(box.url)
    slow, next_one = b"slow-one", b"next-one"
    [message, _] = source.take(slow, 1, 64, 100)
    shards = [message.place[0]]
    time.sleep(0.05)
    assert [each.place for each in source.take(next_one, 60_000, 64, 100)] == [message.place]
    source.record(
        Delivered(next_one, [], [Failure(message, "E", 0, dead=True)], 0, key_waits=True, shards=shards)
    )
    assert [each.id for each in source.dead(10)] == [first]
    source.record(Delivered(slow, [message.place], [], 0, key_waits=True, shards=shards))
    assert source.dead(10) == []
    assert [each.json() for each in source.take(next_one, 60_000, 64, 100)] == ["a2"]
    source.close()


def test_a_retried_message_is_not_overtaken_while_its_shard_is_taken(box, relay):
    """One that was delayed stands in another part of its shard; both parts are read in one view."""
    box.add("a1", key="a", delay="1ms")
    time.sleep(0.01)
    with relay(box.url, publisher=lambda message: 1 / 0, max_attempts=1) as running:
        running.run_once()
    box.add("a2", "a3", key="a")
    source, reading = open_source(box.url), open_source(box.url)
    assert source.take(b"anybody-", 1_000, 64, 100) == []
    assert len(source.retry(None)) == 1
    assert [each.json() for each in reading.take(b"somebody", 1_000, 64, 100)] == ["a1", "a2", "a3"]
    source.close()
    reading.close()


def test_a_publisher_that_answers_in_another_way_is_told(box, relay):
    class Cheerful:
        def publish(self, messages):
            return [True] * len(messages)

    box.add(1)
    with (
        Relay(box.url, publisher=Cheerful()) as running,
        pytest.raises(ConfigError, match="must answer None"),
    ):
        running.run_once()
    assert box.waiting() == 1


def test_many_open_files_do_not_end_a_relay(tmp_path):
    most = resource.getrlimit(resource.RLIMIT_NOFILE)[0]
    if most < 1_200:
        resource.setrlimit(resource.RLIMIT_NOFILE, (4_096, resource.getrlimit(resource.RLIMIT_NOFILE)[1]))
    opened = [os.open("/dev/null", os.O_RDONLY) for _ in range(1_050)]
    try:
        relay = Relay(f"sqlite:///{tmp_path}/shop.db", publisher=print, poll="10ms")
        threading.Timer(0.3, relay.stop).start()
        relay.run()
    finally:
        for each in opened:
            os.close(each)


def test_locks_that_nobody_gives_back_are_an_outage_on_mariadb(mariadb_url):
    box = Box(mariadb_url, lambda: connect_to_mariadb(mariadb_url))
    box.add(1)
    source = open_source(mariadb_url)
    assert source.status().backlog == 1
    source._place._database._connection.query("SET SESSION innodb_lock_wait_timeout = 1")
    source.take(b"first---", 1, 64, 10)
    with connect_to_mariadb(mariadb_url) as holder, holder.cursor() as cursor:
        holder.begin()
        cursor.execute("SELECT * FROM dupeproof_outbox_shards FOR UPDATE")
        time.sleep(0.01)
        with pytest.raises(StoreUnavailable, match="lock"):
            source.take(b"second--", 1_000, 64, 10)
        holder.rollback()
    assert len(source.take(b"second--", 1_000, 64, 10)) == 1
    source.close()
    box.connection.close()


def test_a_backlog_behind_dead_keys_is_passed_over_fast_on_mariadb(mariadb_url):
    """Also when the server knows its tables: then it used to read all of them for every shard."""
    box = Box(mariadb_url, lambda: connect_to_mariadb(mariadb_url))
    rows = [{"topic": "t", "payload": 1, "key": f"dead-{n % 200}"} for n in range(8_000)]
    box.outbox.add_many(box.connection, rows)
    box.connection.commit()
    with Relay(mariadb_url, publisher=lambda message: 1 / 0, max_attempts=1, batch=5_000) as relay:
        while relay.status().dead < 200:
            relay.run_once()
        box.add("alive")
        box.execute("ANALYZE TABLE dupeproof_outbox, dupeproof_outbox_failing, dupeproof_outbox_shards")
        began = time.monotonic()
        [message] = open_source(mariadb_url).take(b"somebody", 1_000, 64, 100)
        took = time.monotonic() - began
    assert message.json() == "alive"
    assert took < 2.5, "a statement of five seconds is one that is given up"
    box.connection.close()


def test_a_forked_child_has_a_lock_of_its_own_on_mariadb(mariadb_url):
    source = open_source(mariadb_url)
    source.status()
    started, end = threading.Event(), threading.Event()

    def hold(adapted):
        started.set()
        end.wait(20)

    holder = threading.Thread(target=source._place._database.transact, args=(hold,))
    holder.start()
    started.wait(10)
    child = os.fork()
    if child == 0:
        signal.alarm(20)
        os._exit(0 if source.status().backlog == 0 else 1)
    assert os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]) == 0
    end.set()
    holder.join()
    source.close()


@pytest.mark.parametrize(
    "text",
    [
        "password is hunter2",
        "pwd=hunter2",
        "Bearer hunter2hunter2.part.sig",
        "password='hunter2 and more hunter2'",
        "amqp://u:hunter2@host/x",
        "{'sasl.password': 'hunter2'}",
        "sig=hunter2",
    ],
)
def test_secrets_are_not_kept(text):
    assert "hunter2" not in described(ValueError(text))


def test_what_is_wrong_with_a_password_is_told():
    refusal = 'FATAL: password authentication failed for user "app"'
    assert described(ValueError(refusal)) == f"ValueError: {refusal}"
