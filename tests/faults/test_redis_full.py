"""A Redis that is full takes some of a batch and not the rest; nobody may take the first for duplicates."""

import pytest

from dupeproof import StoreUnavailable
from dupeproof.core.records import Mark
from dupeproof.stores import open_store


def test_marks_that_were_made_in_part_are_not_called_refused(own_redis):
    """Refused would mean that nothing was done: the coalescer would send each again, and find its own mark."""
    server = own_redis(options={"maxmemory": "3mb", "maxmemory-policy": "noeviction"})
    store = open_store(server.url)
    marks = [Mark(number.to_bytes(16, "big"), 60_000, meta=b"x" * 1_000) for number in range(5_000)]
    with pytest.raises(StoreUnavailable, match="out of memory") as partly:
        store.mark(marks)
    assert store.marks([marks[0].key]) != [None]
    assert not partly.value.refused
    with pytest.raises(StoreUnavailable, match="out of memory") as alone:
        store.mark([Mark(b"k" * 16, 60_000)])
    assert alone.value.refused
    store.close()
