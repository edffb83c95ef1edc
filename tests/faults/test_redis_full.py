"""A Redis that is full takes some of a batch and not the rest; nobody may take the first for duplicates."""

import pytest

from dupeproof import StoreUnavailable
from dupeproof.core.records import Mark
from dupeproof.stores import open_store
from support.flavors import both_flavors, open_once


def test_marks_that_were_made_in_part_are_not_called_refused(own_redis):
    """Refused means that the value is at fault and nothing was done: each would be sent again, and find its own mark."""
    server = own_redis(options={"maxmemory": "3mb", "maxmemory-policy": "noeviction"})
    store = open_store(server.url)
    marks = [Mark(number.to_bytes(16, "big"), 60_000, meta=b"x" * 1_000) for number in range(5_000)]
    with pytest.raises(StoreUnavailable, match="out of memory") as partly:
        store.mark(marks)
    assert store.marks([marks[0].key]) != [None]
    assert not partly.value.refused
    store.close()


@both_flavors
def test_a_full_server_still_replays_what_was_done(own_redis, flavor):
    server = own_redis(options={"maxmemory-policy": "noeviction"})
    with open_once(flavor, server.url) as once:
        once.run("key", lambda: "value")
        with server.connect() as resp:
            resp.call("CONFIG", "SET", "maxmemory", "1")
        with pytest.raises(StoreUnavailable, match="out of memory"):
            once.run("new", int)
        assert once.run("key", lambda: "again") == "value"
