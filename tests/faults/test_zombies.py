"""A worker stopped past its lease comes back to a key that went to another: it is refused, and told so."""

import pytest

from support.stores import DURABLE, on
from support.workers import wait_for

LEASE = "300ms"
"""Nobody asks for a key before its lease is seen to be over, so a short one will do."""


@on(*DURABLE)
def test_a_worker_stopped_past_its_lease_cannot_overwrite_the_one_that_took_over(url, worker):
    first, second = worker(url, lease=LEASE), worker(url, lease=LEASE)
    assert first.run("key", "first", stops=["after"]) == {"at": "after"}
    first.freeze()
    wait_for(lambda: second.ask(do="state", key="key")["state"] == "abandoned", what="the lease to run out")

    taken = second.run("key", "second")
    assert (taken["value"], taken["attempt"], taken["replayed"]) == ("second", 2, False)
    assert taken["events"] == ["took_over", "finished"]

    first.thaw()
    refused = first.go_on()
    assert refused["error"] == "ClaimLost"
    assert refused["events"] == ["won", "lost"]
    assert first.run("key")["value"] == "second"
    assert second.run("key")["value"] == "second"


@on(*DURABLE)
def test_a_zombie_is_refused_while_the_one_that_took_over_still_works(url, worker):
    first, second = worker(url, lease=LEASE), worker(url, lease=LEASE)
    first.run("key", "first", stops=["after"])
    first.freeze()
    wait_for(lambda: second.ask(do="state", key="key")["state"] == "abandoned", what="the lease to run out")
    assert second.run("key", "second", stops=["after"]) == {"at": "after"}
    first.thaw()
    assert first.go_on()["error"] == "ClaimLost"
    assert second.go_on()["value"] == "second"


@on(*DURABLE)
def test_a_worker_stopped_past_its_lease_still_owns_a_key_that_nobody_took(url, worker):
    first, looking = worker(url, lease=LEASE), worker(url, lease=LEASE)
    first.run("key", "first", stops=["after"])
    first.freeze()
    wait_for(lambda: looking.ask(do="state", key="key")["state"] == "abandoned", what="the lease to run out")
    first.thaw()
    assert first.go_on()["value"] == "first"
    assert looking.run("key", "second")["value"] == "first"


@on(*DURABLE)
@pytest.mark.parametrize("way", ["resolve", "forget"])
def test_the_owner_of_a_held_key_is_refused_once_someone_resolved_or_forgot_it(url, worker, way):
    first, second = (worker(url, lease=LEASE, on_abandoned="hold") for _ in range(2))
    first.run("key", "first", stops=["after"])
    first.freeze()
    wait_for(lambda: second.ask(do="state", key="key")["state"] == "held", what="the lease to run out")
    assert second.run("key", "second")["error"] == "Held"
    if way == "resolve":
        assert second.ask(do="resolve", key="key", result="by hand")["done"]
    else:
        assert second.ask(do="forget", key="key")["done"]
    first.thaw()
    assert first.go_on()["error"] == "ClaimLost"
    expected = "by hand" if way == "resolve" else "second"
    assert second.run("key", "second")["value"] == expected
