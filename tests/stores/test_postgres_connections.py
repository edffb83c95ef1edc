"""Connections that were dropped without a word, as firewalls and load balancers do: found before they cost more than one call."""

import contextlib
import os
import subprocess
import sys
import threading
import time
from concurrent.futures import ThreadPoolExecutor

import psycopg
import pytest

from dupeproof import Once, StoreUnavailable
from dupeproof.stores.postgres import pool as sync_pool
from dupeproof.stores.postgres import pool_async as async_pool
from support.flavors import both_flavors, open_once
from support.proxy import Proxy
from support.workers import wait_for

TIMEOUT = 2.0
CONNECTIONS = 8


@pytest.fixture
def proxy(postgres_url):
    with contextlib.closing(Proxy(postgres_url)) as proxy:
        yield proxy


@pytest.fixture
def once(proxy, flavor):
    """With as many connections as the test wants, all of them idle."""
    with open_once(flavor, f"{proxy.url}?timeout={TIMEOUT}s") as once:
        once.run("before", int)
        once.seen("before")
        all_at_once = threading.Barrier(CONNECTIONS)
        proxy.delay = 0.1
        with ThreadPoolExecutor(CONNECTIONS) as threads:
            list(
                threads.map(lambda n: all_at_once.wait() is not None and once.get(f"{n}"), range(CONNECTIONS))
            )
        proxy.delay = 0.0
        yield once


def seconds(call):
    start = time.monotonic()
    call()
    return time.monotonic() - start


@both_flavors
def test_what_can_be_said_again_goes_through_in_the_one_timeout(once, proxy):
    proxy.forget()
    assert seconds(lambda: once.run("key", int)) < TIMEOUT
    assert seconds(lambda: [once.run(f"key {n}", int) for n in range(CONNECTIONS)]) < TIMEOUT / 2


@both_flavors
def test_a_mark_fails_once_and_not_on_every_connection(once, proxy):
    proxy.forget()
    with pytest.raises(StoreUnavailable):
        once.seen("id")
    assert seconds(lambda: [once.seen(f"id {n}") for n in range(CONNECTIONS)]) < TIMEOUT / 2


@both_flavors
def test_one_that_was_idle_for_long_is_asked_first(once, proxy, monkeypatch):
    proxy.forget()
    for module in (sync_pool, async_pool):
        monkeypatch.setattr(module, "_CHECKED_EVERY", 0.0)  # long enough
    assert seconds(lambda: once.seen("id")) < TIMEOUT
    assert once.seen("id") is True


def test_a_program_without_poll_works_too(postgres_url):
    """Under eventlet it is taken away."""
    code = (
        "import select, sys; del select.poll\n"
        "from dupeproof import Once\n"
        "once = Once(sys.argv[1])\n"
        "print(once.run('key', lambda: 'ran'), once.seen('id'), once.seen('id'))"
    )
    run = [sys.executable, "-c", code, postgres_url]
    assert subprocess.run(run, capture_output=True, text=True, check=True).stdout == "ran False True\n"


def test_psycopg_in_pure_python_cancels_too(own_pgbouncer, postgres_url):
    """With the libpq of the system, which may know the older way only; behind a pooler, where nothing else ends it."""
    code = """
import sys
from dupeproof import Once, StoreUnavailable
once = Once(sys.argv[1] + "?timeout=500ms")
once.run("before", int)
print("ready", flush=True)
sys.stdin.readline()
try:
    once.get("key")
except StoreUnavailable:
    print("refused", flush=True)
sys.stdin.readline()
"""
    waiting = "SELECT count(*) FROM pg_stat_activity WHERE wait_event_type = 'Lock' AND datname = current_database()"
    with Once(postgres_url) as once, psycopg.connect(postgres_url) as other:
        once.run("before", int)
        with subprocess.Popen(
            [sys.executable, "-c", code, own_pgbouncer(postgres_url).url],
            env={**os.environ, "PSYCOPG_IMPL": "python"},
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            text=True,
        ) as child:
            assert child.stdout.readline() == "ready\n"
            other.execute("LOCK TABLE dupeproof_records")
            child.stdin.write("\n")
            child.stdin.flush()
            assert child.stdout.readline() == "refused\n"
            wait_for(lambda: other.execute(waiting).fetchone() == (0,), what="the statement to end")
            child.communicate("\n")
