"""SQLite under a write lock that somebody else holds for a while."""

import contextlib
import sqlite3
import threading

from dupeproof.core.outcomes import Won
from dupeproof.core.records import ClaimRequest, Finish, Terms
from dupeproof.stores import open_store

LEASE = 2_000
HELD = 0.5


def test_a_claim_that_waited_for_the_lock_has_its_whole_lease_and_is_one_attempt(tmp_path):
    store = open_store(f"sqlite:///{tmp_path}/dedup.db")
    store.check()
    key, token = b"k" * 16, b"12345678"
    with contextlib.closing(
        sqlite3.connect(tmp_path / "dedup.db", isolation_level=None, check_same_thread=False)
    ) as other:
        other.execute("BEGIN IMMEDIATE")
        threading.Timer(HELD, lambda: other.execute("ROLLBACK")).start()
        assert store.claim([ClaimRequest(key, token, Terms("waiting", LEASE, LEASE))]) == [Won(1)]
        [found] = store.get([key])
    assert found.record.attempt == 1
    assert found.record.lease_until - found.now > LEASE - HELD * 1_000 / 2
    assert store.finish([Finish(key, token, LEASE, b"1", "json")]) == [True]
    store.close()
