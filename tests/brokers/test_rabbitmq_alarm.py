"""A broker with an alarm takes no messages. A consumer goes on with those it has, and with the rest when the alarm is over."""

import os
import sqlite3
import subprocess
import time

import pytest
from brokers_places import RabbitPlace, message, new_queue

from dupeproof import AsyncOnce, AsyncRelay, Once, Outbox, Relay
from dupeproof.brokers.base import Reject

GOOD, BAD = 300, 3


def control(server, *command: str) -> str:
    """`rabbitmqctl`, for a node with a name daemon and a cookie of its own. The one in the path would change the user."""
    program = server.programs()["rabbitmq-server"].with_name("rabbitmqctl")
    ours = {"HOME": str(server.home), "ERL_EPMD_PORT": str(server._ports[0])}
    run = subprocess.run(
        [program, "-n", f"{server._node}@localhost", "-q", *command],
        env={**os.environ, **ours},
        check=True,
        capture_output=True,
        timeout=60,
        text=True,
    )
    return run.stdout


def drain(place, queue, is_async, run, *, retried=False):
    """A consumer that fails at a hundredth of the messages, early ones."""

    def handle(message):
        if message.id.startswith("bad"):
            raise ValueError if retried else Reject("no good")

    async def handle_async(message):
        handle(message)

    once = (AsyncOnce if is_async else Once)("memory://", namespace=queue)
    handler = handle_async if is_async else handle
    return run(place.consumer(queue, handler, once=once, backoff="10ms", drain="10s"))


@pytest.mark.timeout(180)
def test_messages_that_cannot_be_copied_hold_up_no_others(own_rabbitmq, run, until, caplog):
    """One server for both kinds of consumers, because it takes long to start."""
    server = own_rabbitmq()
    place = RabbitPlace(server.url)
    rejecting = {is_async: new_queue() for is_async in (False, True)}
    retrying = {is_async: new_queue() for is_async in (False, True)}
    for queue in (*rejecting.values(), *retrying.values()):
        place.declare(queue)
        bad = [message(queue, f"bad-{n}") for n in range(BAD)]
        place.publish(*bad, *(message(queue, f"m-{n}") for n in range(GOOD)))
    channel = place.channel()

    def count(queue):
        return channel.queue_declare(queue, passive=True).method.message_count

    control(server, "set_vm_memory_high_watermark", "absolute", "1")
    for is_async in (False, True):
        for queues, retried in ((rejecting, False), (retrying, True)):
            queue = queues[is_async]
            running = drain(place, queue, is_async, run, retried=retried)
            until(lambda running=running: running.tally.done == GOOD, lambda running=running: running.tally)
            began = time.monotonic()
            running.stop()
            assert time.monotonic() - began < 10
            assert running.tally.reconnects == 0
            # What was acknowledged is gone; what has no copy is there.
            until(lambda queue=queue: count(queue) == BAD, lambda queue=queue: count(queue))
    assert "see its alarms" in caplog.text

    # One that is at work when the alarm ends goes on where it was, with what had to wait.
    waiting = [drain(place, queue, is_async, run) for is_async, queue in rejecting.items()]
    until(lambda: caplog.text.count("see its alarms") == 6, lambda: caplog.text)
    control(server, "set_vm_memory_high_watermark", "absolute", "512MB")

    def left() -> set[str]:
        """Queues with messages, also such as are out with a consumer."""
        lines = control(server, "list_queues", "name", "messages", "--no-table-headers").splitlines()
        return {name for name, number in map(str.split, lines) if int(number)}

    until(lambda: left().isdisjoint(rejecting.values()), left)
    for running in waiting:
        running.stop()
        assert running.tally.reconnects == 0
    # At most the one that was on its way when a consumer was closed is there twice.
    for queue in rejecting.values():
        dead = [channel.basic_get(f"{queue}.dead", auto_ack=True)[1] for _ in range(count(f"{queue}.dead"))]
        assert {each.message_id for each in dead} == {f"bad-{n}" for n in range(BAD)}
        assert len(dead) <= BAD + 1
    channel.connection.close()


ALARMS = {
    "memory": (
        ("set_vm_memory_high_watermark", "absolute", "1"),
        ("set_vm_memory_high_watermark", "absolute", "512MB"),
    ),
    "disk": (("set_disk_free_limit", "900000GB"), ("set_disk_free_limit", "50MB")),
}


@pytest.mark.timeout(240)
def test_relays_wait_for_the_end_of_an_alarm_and_blame_nobody(own_rabbitmq, run, until, tmp_path):
    """One that is told to stop meanwhile does; one that goes on sends when it can. Consumers drain what is there."""
    server = own_rabbitmq()
    place = RabbitPlace(server.url)
    for alarm, (raise_it, end_it) in ALARMS.items():
        for is_async in (False, True):
            queue = new_queue()
            place.declare(queue)
            place.publish(*(message(queue, f"before-{n}") for n in range(50)))
            path = tmp_path / f"{alarm}-{is_async}.db"
            with sqlite3.connect(path) as connection:
                Outbox().create_schema(connection)
                Outbox().add_many(connection, [{"topic": queue, "payload": b"{}"} for _ in range(100)])
            connection.close()
            control(server, *raise_it)

            def relaying(is_async=is_async, path=path, **options):
                publisher = place.publisher(is_async=is_async, timeout="2s")
                kind = AsyncRelay if is_async else Relay
                relay = kind(f"sqlite:///{path}", publisher=publisher, drain="2s", max_attempts=1, **options)
                return run(_Tallied(relay, publisher if is_async else None)), publisher

            (first, _), (second, publisher) = relaying(), relaying()
            consumer = drain(place, queue, is_async, run)
            until(
                lambda consumer=consumer: consumer.tally.done == 50, lambda consumer=consumer: consumer.tally
            )
            began = time.monotonic()
            first.stop()
            assert time.monotonic() - began < 2.5 + 2 * is_async  # its publisher closes the connection too
            control(server, *end_it)
            until(
                lambda consumer=consumer: consumer.tally.done == 150, lambda consumer=consumer: consumer.tally
            )
            # What the first one was about to send may have come as well, and was sent again.
            looking = Relay(f"sqlite:///{path}", publisher=print)
            until(lambda looking=looking: looking.status().backlog == 0, looking.status)
            second.stop()
            if not is_async:
                publisher.close()
            consumer.stop()
            assert (looking.status().dead, looking.status().failing) == (0, 0)


class _Tallied:
    """A relay as the fixture for consumers wants it."""

    def __init__(self, relay, publisher):
        self.stop, self.tally = relay.stop, relay

        async def run():
            """A connection left open would be torn down by the end of its loop."""
            async with publisher:
                await relay.run()

        self.run = relay.run if publisher is None else run
