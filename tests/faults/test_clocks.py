"""Clients whose clocks are an hour wrong: the server's clock is the only one that counts."""

import contextlib
import time

import pytest

from support.stores import on
from support.workers import start_behind, wait_for

HOUR = 3600


@pytest.fixture
def shifted(url, faketime):
    """Workers that see another time, down to the C library."""
    with contextlib.ExitStack() as stack:

        def start(hours, **options):
            return stack.enter_context(contextlib.closing(start_behind(faketime(hours), url, **options)))

        yield start


@on("redis", "postgres")
def test_clocks_an_hour_wrong_either_way_change_nothing(shifted, worker, url):
    options = {"lease": "500ms", "window": "1s"}
    early, late, right = shifted(1, **options), shifted(-1, **options), worker(url, **options)
    clocks = [each.ask(do="clock") for each in (early, late)]
    off = [clock["time"] - time.time() for clock in clocks]
    assert off == pytest.approx([HOUR, -HOUR], abs=30)
    assert all(clock["date"] == pytest.approx(clock["time"], abs=30) for clock in clocks)

    # A live claim is busy for everyone, and its heartbeat keeps it for longer than its lease.
    assert early.run("key", "early", stops=["after"]) == {"at": "after"}
    until = time.monotonic() + 0.8
    while time.monotonic() < until:
        assert {each.run("key")["error"] for each in (late, right)} == {"Busy"}
    assert early.go_on()["value"] == "early"

    # A result is replayed inside the window, and only there.
    assert {each.run("key")["value"] for each in (early, late, right)} == {"early"}
    finished = time.monotonic()
    wait_for(lambda: late.ask(do="state", key="key")["state"] is None, what="the window to end")
    assert time.monotonic() - finished == pytest.approx(1, abs=0.7)
    assert late.run("key", "late")["attempt"] == 1

    # An abandoned claim is taken over after its lease, not before, not an hour later.
    late.run("left", "late", stops=["after"])
    late.kill()
    killed = time.monotonic()
    wait_for(lambda: early.ask(do="state", key="left")["state"] == "abandoned", what="the lease to end")
    assert time.monotonic() - killed < 1.2
    assert early.run("left", "early")["events"] == ["took_over", "finished"]

    # Marks too.
    assert [each.ask(do="seen", key="id")["seen"] for each in (early, right, early)] == [False, True, True]
