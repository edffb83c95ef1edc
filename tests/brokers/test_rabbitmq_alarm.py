"""A broker with an alarm takes no messages. A consumer goes on with those it has, and with the rest when the alarm is over."""

import os
import subprocess
import time

import pytest
from brokers_places import RabbitPlace, message, new_queue

from dupeproof import AsyncOnce, Once
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
