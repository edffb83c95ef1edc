"""A relay as a service: woken at the commit, polling always, stopped without losing what it has in hand."""

import asyncio
import signal
import statistics
import subprocess
import sys
import threading
import time
from pathlib import Path

import psycopg
import pytest
from outbox_deliveries import wait_for

from dupeproof import AsyncRelay, Outbox, Relay
from dupeproof.core.events import Kind


class Running:
    """A relay in a thread of its own."""

    def __init__(self, url, publisher, **options):
        self.relay = Relay(url, publisher=publisher, **options)
        self.thread = threading.Thread(target=self.relay.run)

    def __enter__(self):
        self.thread.start()
        return self.relay

    def __exit__(self, *_):
        self.relay.stop()
        self.thread.join(30)
        assert not self.thread.is_alive()


def test_it_is_woken_at_the_commit(box_on_postgres):
    """With a poll of an hour, only the notification can bring a message out."""
    box = box_on_postgres
    got = []
    with Running(box.url, lambda message: got.append(time.monotonic()), poll="1h"):
        box.add("first")
        wait_for(lambda: len(got) == 1, what="the first")
        lags = []
        for number in range(2, 32):
            box.outbox.add(box.connection, topic="t", payload=number)
            box.connection.commit()
            committed = time.monotonic()
            wait_for(lambda number=number: len(got) == number, what="the next")
            lags.append(got[-1] - committed)
    print(f"commit to publisher: median {statistics.median(lags) * 1000:.1f} ms")
    assert statistics.median(lags) < 1.0


def test_without_notifications_the_poll_finds_it(box):
    quiet = Outbox(notify=False)
    got = []
    with Running(box.url, got.append, poll="50ms"):
        for number in range(1, 4):
            quiet.add(box.connection, topic="t", payload=number)
            box.connection.commit()
            wait_for(lambda number=number: len(got) == number, what="the message")


def test_it_goes_on_when_the_database_comes_back(own_postgres):
    server = own_postgres()
    outbox, got, events = Outbox(), [], []
    with psycopg.connect(server.url) as connection:
        outbox.create_schema(connection)
    with Running(server.url, got.append, backoff="20ms", max_backoff="100ms", events=[events.append]):
        server.kill()
        wait_for(lambda: any(event.kind is Kind.STORE_DOWN for event in events), what="the complaint")
        server.start()
        with psycopg.connect(server.url) as connection:
            outbox.add(connection, topic="t", payload=1)
        wait_for(lambda: len(got) == 1, what="the message")


def test_it_goes_on_when_the_way_is_open_again(box):
    box.add(*range(5), key="k")
    got, closed = [], threading.Event()
    closed.set()

    def publish(message):
        if closed.is_set():
            raise ConnectionRefusedError
        got.append(message.json())

    with Running(box.url, publish, backoff="10ms", max_backoff="20ms", max_attempts=1):
        wait_for(lambda: box.waiting() == 5)
        closed.clear()
        wait_for(lambda: got == list(range(5)), what="the messages")


def test_stopped_it_finishes_what_it_has_in_hand(box):
    box.add(*range(20), key="k")
    got = []
    with Running(box.url, lambda message: got.append(message.json()) or time.sleep(0.01)):
        wait_for(lambda: len(got) >= 3)
    assert got == list(range(20))
    assert box.waiting() == 0


def test_stopped_it_goes_on_for_no_longer_than_drain(box):
    box.add(*range(1000), key="k")
    got = []
    with Running(
        box.url, lambda message: got.append(message.json()) or time.sleep(0.01), drain="100ms"
    ) as relay:
        wait_for(lambda: len(got) >= 3)
        relay.stop()
        at_stop = time.monotonic()
    assert time.monotonic() - at_stop < 5
    assert len(got) < 1000
    assert box.waiting() == 1000 - len(got), "what was not sent is there, what was sent is not"
    with Relay(box.url, publisher=lambda message: got.append(message.json())) as relay:
        relay.run_once()  # at once: the shards were given back
    assert got == list(range(1000))


def test_stopped_before_it_runs_it_does_not_run(box):
    box.add(1)
    relay = Relay(box.url, publisher=print)
    relay.stop()
    relay.run()
    assert box.waiting() == 1


def test_stopped_it_can_be_run_once_more(box):
    box.add(1, 2)
    got = []
    relay = Relay(box.url, publisher=lambda message: got.append(message.json()))
    relay.stop()
    assert relay.run_once() == 2
    assert sorted(got) == [1, 2]


async def test_the_async_relay_runs_and_stops(box):
    box.add(*range(3), key="k")
    got = asyncio.Queue()

    async def publish(message):
        await got.put(message.json())

    relay = AsyncRelay(box.url, publisher=publish, poll="1h")
    running = asyncio.create_task(relay.run())
    async with asyncio.timeout(30):
        assert [await got.get() for _ in range(3)] == [0, 1, 2]
        relay.stop()
        await running
    assert box.waiting() == 0


async def test_the_async_relay_is_woken_too(box_on_postgres):
    box = box_on_postgres
    got = asyncio.Queue()
    relay = AsyncRelay(box.url, publisher=lambda message: got.put_nowait(message.json()), poll="1h")
    running = asyncio.create_task(relay.run())
    async with asyncio.timeout(30):
        for number in range(3):
            await asyncio.to_thread(box.add, number)
            assert await got.get() == number
        relay.stop()
        await running


@pytest.mark.parametrize("end", [signal.SIGTERM, signal.SIGINT])
def test_the_command_ends_when_asked(box, end):
    box.add({"n": 1}, key="k")
    command = [
        sys.executable,
        "-m",
        "dupeproof",
        "relay",
        "--source",
        box.url,
        "--to",
        "stdout:",
        "--poll",
        "20ms",
    ]
    with subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True) as process:
        assert '"payload":{"n":1}' in process.stdout.readline()
        wait_for(lambda: box.waiting() == 0)
        process.send_signal(end)
        _, err = process.communicate(timeout=30)
    assert process.returncode == 0
    assert "sent 1 " in err


def test_no_connection_and_no_file_is_left_open(box):
    open_files = []
    for _ in range(3):
        box.add(1)
        with Running(box.url, lambda message: None, poll="10ms"):
            wait_for(lambda: box.waiting() == 0)
        open_files.append(len(list(Path("/proc/self/fd").iterdir())))
    assert open_files[1] == open_files[2]
