"""What the parts of the conformance suite share: the store under test and short ways to speak to it."""

import os
from collections.abc import AsyncIterator

import pytest

from dupeproof.core.outcomes import Outcome, Won
from dupeproof.core.protocols import AsyncSeenSet, AsyncStore
from dupeproof.core.records import ClaimRequest, Fail, Finish, Mark, Release, Renew, Terms
from dupeproof.testing.runtime_async import sleep

HOUR = 3_600_000
SHORT = 150
"""Milliseconds: long enough to act within on a busy machine, short enough to wait for."""


def new_key() -> bytes:
    return os.urandom(16)


def new_token() -> bytes:
    return os.urandom(8)


def terms(
    *, lease: int = HOUR, window: int = HOUR, hold: bool = False, limit: int = 0, name: str = ""
) -> Terms:
    return Terms("conformance", lease, window, hold, limit, name)


async def after(milliseconds: int) -> None:
    """Let a lease or a window of this length run out, by any store's clock."""
    await sleep(milliseconds / 1_000 + 0.05)


class AsyncStoreCase:
    """Override `make_store`."""

    async def make_store(self) -> AsyncStore:
        """A store, empty or not; the suite uses random keys. It is closed after each test."""
        raise NotImplementedError("return the store to test from make_store")

    @pytest.fixture
    async def store(self) -> AsyncIterator[AsyncStore]:
        store = await self.make_store()
        yield store
        await store.close()

    @pytest.fixture
    def seen_set(self, store: AsyncStore) -> AsyncSeenSet:
        if not isinstance(store, AsyncSeenSet):
            pytest.skip("this store keeps no marks")
        return store


async def claim(
    store: AsyncStore, key: bytes, token: bytes, promised: Terms | None = None, fingerprint: bytes = b""
) -> Outcome:
    [outcome] = await store.claim([ClaimRequest(key, token, promised or terms(), fingerprint)])
    return outcome


async def won(
    store: AsyncStore, key: bytes, promised: Terms | None = None, fingerprint: bytes = b""
) -> bytes:
    """Claim a key that can be claimed; the token of the claim."""
    token = new_token()
    assert isinstance(await claim(store, key, token, promised, fingerprint), Won)
    return token


async def finish(
    store: AsyncStore,
    key: bytes,
    token: bytes,
    result: bytes = b"1",
    *,
    window: int = HOUR,
    codec: str = "json",
    resolver: bytes = b"",
) -> bool:
    [ours] = await store.finish([Finish(key, token, window, result, codec, resolver)])
    return ours


async def fail(
    store: AsyncStore, key: bytes, token: bytes, *, window: int = HOUR, dead: bool = False, hold: bool = False
) -> bool:
    [ours] = await store.fail([Fail(key, token, window, "ValueError", dead, hold)])
    return ours


async def release(store: AsyncStore, key: bytes, token: bytes, *, reopen: bool = False) -> bool:
    [ours] = await store.release([Release(key, token, HOUR, reopen)])
    return ours


async def renew(store: AsyncStore, key: bytes, token: bytes, lease: int = HOUR) -> bool:
    [ours] = await store.renew([Renew(key, token, lease, HOUR)])
    return ours


async def mark(
    seen_set: AsyncSeenSet, key: bytes, *, window: int = HOUR, token: bytes = b"", meta: bytes = b""
) -> bool:
    [fresh] = await seen_set.mark([Mark(key, window, token, meta)])
    return fresh
