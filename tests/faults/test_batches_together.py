"""Batches of the same keys in any order, at the same time, with a purge in between: nobody waits in a circle."""

import contextlib
import os
import random
import time
from concurrent.futures import ThreadPoolExecutor

import psycopg

from dupeproof.core.records import ClaimRequest, Fail, Finish, Mark, Renew, Terms
from dupeproof.stores import open_store
from support.stores import on

SECONDS = 3.0
CALLERS = 6
KEYS = [os.urandom(16) for _ in range(60)]
WINDOWS = [1, 5, 3_600_000]
"""Some are over at once, so that keys are new, known, expired and removed all the time."""


@on("postgres")
def test_batches_that_overlap_do_not_deadlock(url):
    def call(seed):
        chance = random.Random(seed)
        rounds = 0
        with contextlib.closing(open_store(url)) as store:
            until = time.monotonic() + SECONDS
            while time.monotonic() < until:
                keys, token, window = chance.sample(KEYS, 30), os.urandom(8), chance.choice(WINDOWS)
                terms = Terms("together", chance.choice([1, 60_000]), window)
                store.claim([ClaimRequest(key, token, terms) for key in keys])
                store.renew([Renew(key, token, 50, window) for key in keys])
                store.fail([Fail(key, token, window, "ValueError") for key in keys[:10]])
                store.finish([Finish(key, token, window, b"1", "json") for key in keys[10:]])
                store.mark([Mark(key, window) for key in keys])
                store.purge(20)
                rounds += 1
        return rounds

    with psycopg.connect(url, autocommit=True) as connection:

        def deadlocks():
            text = "SELECT deadlocks FROM pg_stat_database WHERE datname = current_database()"
            return connection.execute(text).fetchone()[0]

        before = deadlocks()
        with ThreadPoolExecutor(CALLERS) as threads:
            rounds = list(threads.map(call, range(CALLERS)))
        assert min(rounds) > 0
        assert deadlocks() == before
