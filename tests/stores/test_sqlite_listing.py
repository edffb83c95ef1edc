"""A walk over a file whose expired records nobody has purged."""

import asyncio
import os

from dupeproof.core.protocols import AsyncListable, ability
from dupeproof.core.records import ClaimRequest, Fail, Terms
from dupeproof.stores import open_async_store


async def test_a_walk_goes_on_past_pages_of_what_has_expired(tmp_path):
    store = open_async_store(f"sqlite:///{tmp_path}/dedup.db?synchronous=normal")
    brief, lasting = Terms("ns", lease=1, window=1), Terms("ns", lease=60_000, window=3_600_000)
    token, last = bytes(8), b"\xff" * 16
    await store.claim([ClaimRequest(b"\x00" + os.urandom(15), token, brief) for _ in range(2_500)])
    await store.claim([ClaimRequest(last, token, lasting)])
    await store.fail([Fail(last, token, 3_600_000, "E")])
    await asyncio.sleep(0.05)
    listable = ability(store, AsyncListable)
    assert [each.key async for page in listable.records() for each in page] == [last]
    await store.close()
