# Written by tools/twins.py from src/dupeproof/testing/base_async.py; change that file instead.
"""What the parts of the conformance suite share: the store under test and short ways to speak to it."""

import os
from collections.abc import Iterator

import pytest

from dupeproof.core.outcomes import Outcome, Won
from dupeproof.core.protocols import SeenSet, Store
from dupeproof.core.records import ClaimRequest, Fail, Finish, Mark, Release, Renew, Terms
from dupeproof.testing.runtime import sleep

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


def after(milliseconds: int) -> None:
    """Let a lease or a window of this length run out, by any store's clock."""
    sleep(milliseconds / 1_000 + 0.05)


class StoreCase:
    """Override `make_store`."""

    def make_store(self) -> Store:
        """A store, empty or not; the suite uses random keys. It is closed after each test."""
        raise NotImplementedError("return the store to test from make_store")

    @pytest.fixture
    def store(self) -> Iterator[Store]:
        store = self.make_store()
        yield store
        store.close()

    @pytest.fixture
    def seen_set(self, store: Store) -> SeenSet:
        if not isinstance(store, SeenSet):
            pytest.skip("this store keeps no marks")
        return store


def claim(
    store: Store, key: bytes, token: bytes, promised: Terms | None = None, fingerprint: bytes = b""
) -> Outcome:
    [outcome] = store.claim([ClaimRequest(key, token, promised or terms(), fingerprint)])
    return outcome


def won(store: Store, key: bytes, promised: Terms | None = None, fingerprint: bytes = b"") -> bytes:
    """Claim a key that can be claimed; the token of the claim."""
    token = new_token()
    assert isinstance(claim(store, key, token, promised, fingerprint), Won)
    return token


def finish(
    store: Store,
    key: bytes,
    token: bytes,
    result: bytes = b"1",
    *,
    window: int = HOUR,
    codec: str = "json",
    resolver: bytes = b"",
) -> bool:
    [ours] = store.finish([Finish(key, token, window, result, codec, resolver)])
    return ours


def fail(
    store: Store, key: bytes, token: bytes, *, window: int = HOUR, dead: bool = False, hold: bool = False
) -> bool:
    [ours] = store.fail([Fail(key, token, window, "ValueError", dead, hold)])
    return ours


def release(store: Store, key: bytes, token: bytes, *, reopen: bool = False) -> bool:
    [ours] = store.release([Release(key, token, HOUR, reopen)])
    return ours


def renew(store: Store, key: bytes, token: bytes, lease: int = HOUR) -> bool:
    [ours] = store.renew([Renew(key, token, lease, HOUR)])
    return ours


def mark(seen_set: SeenSet, key: bytes, *, window: int = HOUR, token: bytes = b"", meta: bytes = b"") -> bool:
    [fresh] = seen_set.mark([Mark(key, window, token, meta)])
    return fresh
