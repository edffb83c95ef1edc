"""Every store gives the answers the memory store gives, step by step, to random sequences of verbs."""

import contextlib
import os
import random
import sqlite3
import time

import psycopg
import pytest

from dupeproof.core import decisions
from dupeproof.core.records import ClaimRequest, Terms
from dupeproof.sql import adapt
from dupeproof.stores import open_store, records_in_transaction
from support import verbs
from support.stores import on

SECONDS = float(os.environ.get("SAME_ANSWERS_SECONDS", "3"))
LENGTH = 30


@on("sqlite", "redis", "redis_cluster", "postgres")
def test_a_store_answers_as_the_memory_store_does(url):
    """The plugin that shuffles the tests seeds `random` too, and prints the seed."""
    memory = open_store("memory://")
    until = time.monotonic() + SECONDS
    sequences = 0
    with contextlib.closing(open_store(url)) as other:
        while time.monotonic() < until:
            names = verbs.Names(os.urandom(12))
            steps = []
            for _ in range(LENGTH):
                steps.append(verbs.step())
                expected, given = (verbs.apply(store, names, steps[-1]) for store in (memory, other))
                if given != expected:
                    history = "\n".join(map(str, steps))
                    pytest.fail(
                        f"memory answers {expected},\nthe store     {given}\nto the last of\n{history}"
                    )
            sequences += 1
    assert sequences > 10


def finished(memory, request, attempt):
    """What the table says of it, applied to the memory store."""
    record = decisions.finish_in_transaction(
        memory._records.get(request.key), request, attempt, b"7", "json", memory._clock()
    )
    if record is not None:
        memory._records[request.key] = record
    return record is not None


@contextlib.contextmanager
def callers_connection(url):
    if url.startswith("sqlite"):
        with contextlib.closing(
            sqlite3.connect(url.removeprefix("sqlite:///"), isolation_level=None)
        ) as connection:
            yield connection
    else:
        with psycopg.connect(url, autocommit=True) as connection:
            yield connection


@on("sqlite", "postgres")
def test_a_finish_in_the_callers_transaction_leaves_what_the_table_says(url):
    memory = open_store("memory://")
    until = time.monotonic() + SECONDS
    written = refused = 0
    with contextlib.closing(open_store(url)) as other, callers_connection(url) as connection:
        other.check()
        while time.monotonic() < until:
            names = verbs.Names(os.urandom(12))
            steps = []
            for _ in range(LENGTH):
                if random.random() < 0.7:
                    steps.append(verbs.step())
                    expected, given = (verbs.apply(store, names, steps[-1]) for store in (memory, other))
                else:
                    key, token = names.key(random.choice("xy")), names.token(random.choice(verbs.LETTERS))
                    request = ClaimRequest(key, token, Terms("names", verbs.LONG, verbs.LONG))
                    steps.append(("finish in transaction", request))
                    expected = finished(memory, request, 2)
                    connection.execute("BEGIN")
                    given = records_in_transaction.finish(adapt(connection), request, 2, b"7", "json")
                    connection.execute("COMMIT")
                    written, refused = written + expected, refused + (not expected)
                assert given == expected, steps
                found = [
                    verbs.apply(store, names, [("get", key) for key in "xy"]) for store in (memory, other)
                ]
                assert found[0] == found[1], steps
    assert written > 10
    assert refused > 10
