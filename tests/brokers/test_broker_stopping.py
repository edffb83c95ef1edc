"""Whoever gets SIGTERM is gone within `drain`, whatever the broker does: away, or there and mute."""

import signal
import sqlite3
import subprocess
import sys
import time
from pathlib import Path

import pytest
from brokers_places import PLACES, SERVERS, message, new_queue

from dupeproof import Outbox

DRAIN, SLACK = 2.0, 10.0
"""Seconds. A busy machine takes some to start and end a process; without the limit they took 8 to 45."""
PROGRAM = Path(__file__).with_name("brokers_stopping.py")


class Process:
    """Not a thread: one that does not wait for a mute broker leaves open connections behind, and its process has to end."""

    def __init__(self, *arguments):
        self._process = subprocess.Popen(
            [sys.executable, PROGRAM, *arguments],
            stdout=subprocess.PIPE,
            stderr=subprocess.DEVNULL,
            text=True,
        )
        self.wait_for("up")

    def wait_for(self, line):
        assert line in iter(lambda: self._process.stdout.readline().strip(), "")

    def seconds_to_end(self):
        began = time.monotonic()
        self._process.send_signal(signal.SIGTERM)
        try:
            assert self._process.wait(30) == 0
        finally:
            self._process.kill()
            self._process.stdout.close()
        return time.monotonic() - began


@pytest.fixture(params=[pytest.param(name, marks=pytest.mark.server(SERVERS[name])) for name in SERVERS])
def own_place(request):
    server = request.getfixturevalue(f"own_{SERVERS[request.param]}")()
    return server, PLACES[request.param](server.url)


@pytest.mark.timeout(240)
def test_processes_end_in_time_whatever_the_broker_does(request, own_place, is_async, tmp_path):
    server, place = own_place
    queue, outbox = new_queue(), tmp_path / "shop.db"
    place.declare(queue)

    def add():
        connection = sqlite3.connect(outbox)
        with connection:
            Outbox().create_schema(connection)
            Outbox().add(connection, topic=queue, payload={})
        connection.close()

    def start(role):
        flavor = "async" if is_async else "sync"
        broker = next(name for name in PLACES if PLACES[name] is type(place))
        return Process(role, flavor, broker, place.url, queue, outbox)

    took = {}
    for away, back in ((server.pause, server.resume), (server.kill, server.start)):
        place.publish(message(queue, f"before {away.__name__}"))
        add()
        at_work = [start("consumer"), start("relay")]
        for each in at_work:
            each.wait_for("at work")
        away()
        add()
        new = [start("consumer"), start("relay")]
        time.sleep(1)  # into whatever they do then
        names = ("consumer at work", "relay at work", "new consumer", "new relay")
        for name, each in zip(names, (*at_work, *new), strict=True):
            took[f"{away.__name__}: {name}"] = round(each.seconds_to_end(), 1)
        back()
    assert max(took.values()) < DRAIN + SLACK, took
