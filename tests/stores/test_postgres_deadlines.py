"""What a caller has given up on takes no effect later: behind a lock, on a server that was frozen, from a slow network.

And it leaves nothing behind on the server: no process that waits, no connection that is taken.
"""

import contextlib
import subprocess
import sys
import threading

import psycopg
import pytest

from dupeproof import Once, StoreUnavailable
from dupeproof.filters import SequenceGuard
from support.flavors import both_flavors, open_once
from support.proxy import Proxy
from support.workers import wait_for

OTHERS = """
    SELECT count(*) FROM pg_stat_activity
    WHERE backend_type = 'client backend' AND pid <> pg_backend_pid() AND datname = current_database()
"""
AT_WORK = f"{OTHERS} AND state = 'active'"
WAITING = f"{OTHERS} AND wait_event_type = 'Lock'"
HANDS_BACK = 1
"""Connections of a guard that tells the server, once it answers again, that nobody works on what it may have granted."""
SHARDS = 3
"""Calls of a kind leave one after the other: those that claim, those that mark, those that count."""


@pytest.fixture
def watching(postgres_url):
    with psycopg.connect(postgres_url, autocommit=True) as connection:
        yield lambda statement: connection.execute(statement).fetchone()[0]


@pytest.fixture
def locked(postgres_url):
    """Nobody gets at our tables inside: a migration, VACUUM FULL, a long DDL."""

    @contextlib.contextmanager
    def locked():
        with psycopg.connect(postgres_url) as connection:
            connection.execute("LOCK TABLE dupeproof_records, dupeproof_marks, dupeproof_sequences")
            yield
            connection.rollback()

    return locked


class Calls:
    """One of each kind of call that takes something, on keys that nobody has had yet."""

    def __init__(self, flavor, url):
        self._stack = contextlib.ExitStack()
        self._once = self._stack.enter_context(open_once(flavor, url, on_abandoned="hold", lease="1h"))
        self._guard = self._stack.enter_context(SequenceGuard(url))
        self.ran = []
        # Connected, tables made, statements prepared.
        self._once.run("before", int)
        self._once.seen("before")
        self._guard.first("producer", 0, 1)

    def all_refused(self):
        calls = [
            lambda: self._once.run("key", lambda: self.ran.append("key")),
            lambda: self._once.seen("id"),
            lambda: self._once.fresh(["a", "b"]),
            lambda: self._guard.first("producer", 0, 2),
        ]
        threads = [threading.Thread(target=self._refused, args=(call,)) for call in calls]
        self._refusals = []
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
        assert self._refusals == [True] * len(calls)

    def _refused(self, call):
        try:
            call()
        except StoreUnavailable:
            self._refusals.append(True)

    def __enter__(self):
        return self

    def __exit__(self, *_):
        self._stack.close()


def assert_nothing_was_taken(calls, url):
    assert calls.ran == []
    with Once(url, on_abandoned="hold", lease="1h") as other, SequenceGuard(url) as guard:
        assert other.get("key") is None
        assert other.run("key", lambda: "at once") == "at once"
        assert other.seen("id") is False
        assert other.fresh(["a", "b"]) == ["a", "b"]
        assert guard.first("producer", 0, 2) is True


@both_flavors
def test_what_waited_behind_a_lock_is_not_granted_when_the_lock_is_gone(
    postgres_url, watching, locked, flavor
):
    with Calls(flavor, f"{postgres_url}?timeout=700ms") as calls:
        with locked():
            calls.all_refused()
        wait_for(lambda: watching(AT_WORK) == 0, what="the last statement to end")
        assert_nothing_was_taken(calls, postgres_url)


@both_flavors
def test_nor_behind_a_pooler_where_it_is_cancelled(own_pgbouncer, postgres_url, watching, locked, flavor):
    pooler = own_pgbouncer(postgres_url, connections=10)
    with Calls(flavor, f"{pooler.url}?timeout=700ms") as calls:
        with locked():
            calls.all_refused()
            wait_for(lambda: watching(WAITING) == 0, what="all that waited to be cancelled")
        assert_nothing_was_taken(calls, postgres_url)


@both_flavors
def test_nor_behind_a_pooler_where_it_cannot_be_cancelled(
    own_pgbouncer, postgres_url, watching, locked, flavor
):
    pooler = own_pgbouncer(postgres_url, connections=10)
    with contextlib.closing(Proxy(pooler.url)) as proxy, Calls(flavor, f"{proxy.url}?timeout=2s") as calls:
        with locked():
            callers = threading.Thread(target=calls.all_refused)
            callers.start()
            wait_for(lambda: watching(WAITING) == SHARDS, what="all to wait for the lock")
            proxy.hold()  # nobody gets through any more, to cancel
            callers.join()
            assert watching(WAITING) == SHARDS
        proxy.let_go()
        wait_for(lambda: watching(AT_WORK) == 0, what="the last statement to end")
        assert_nothing_was_taken(calls, postgres_url)


@both_flavors
def test_what_was_long_under_way_is_refused_by_the_server(postgres_url, watching, flavor):
    with (
        contextlib.closing(Proxy(postgres_url)) as proxy,
        Calls(flavor, f"{proxy.url}?timeout=700ms") as calls,
    ):
        had = watching(OTHERS)
        proxy.hold()
        calls.all_refused()
        assert watching(OTHERS) == had
        proxy.let_go()  # all of it arrives at a server that is fine
        wait_for(lambda: watching(OTHERS) <= HANDS_BACK, what="the connections that were given up to end")
        assert_nothing_was_taken(calls, postgres_url)


@both_flavors
def test_what_reached_a_frozen_server_takes_no_effect_when_it_goes_on(own_postgres, flavor):
    server = own_postgres()
    with Calls(flavor, f"{server.url}?timeout=1s") as calls:
        server.pause()
        calls.all_refused()
        server.resume()
        with psycopg.connect(server.url, autocommit=True) as connection:
            wait_for(
                lambda: connection.execute(OTHERS).fetchone()[0] <= HANDS_BACK,
                what="what was given up to end",
            )
        assert_nothing_was_taken(calls, server.url)


def test_a_key_is_not_held_for_a_process_that_gave_up_and_ended(postgres_url, watching, locked):
    code = """
import sys
from dupeproof import Once, StoreUnavailable
once = Once(sys.argv[1], on_abandoned="hold", lease="100ms")
print("ready", flush=True)
sys.stdin.readline()
try:
    once.run("key", lambda: print("ran"))
except StoreUnavailable:
    print("refused", flush=True)
    """
    with Once(postgres_url, on_abandoned="hold", lease="100ms") as once:
        once.run("before", int)
        with subprocess.Popen(
            [sys.executable, "-c", code, f"{postgres_url}?timeout=500ms"],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            text=True,
        ) as child:
            assert child.stdout.readline() == "ready\n"
            with locked():
                assert child.communicate("\n")[0] == "refused\n"
                wait_for(lambda: watching(WAITING) == 0, what="its statement to end behind the lock")
        assert once.run("key", lambda: "at once") == "at once"


@pytest.fixture
def clock(postgres_url):
    """Puts the clock of the server forward or back, for those who look into this schema first."""
    with psycopg.connect(postgres_url, autocommit=True) as connection:
        connection.execute("CREATE SCHEMA stepped")
        connection.execute("CREATE TABLE stepped.step AS SELECT interval '0' AS by")
        connection.execute(
            "CREATE FUNCTION stepped.clock_timestamp() RETURNS timestamptz LANGUAGE sql AS "
            "'SELECT pg_catalog.clock_timestamp() + by FROM stepped.step'"
        )
        yield lambda step: connection.execute("UPDATE stepped.step SET by = by + %s::interval", [step])


@both_flavors
def test_a_step_of_the_servers_clock_fails_no_call(postgres_url, clock, flavor):
    options = "options=-c%20search_path%3Dstepped,pg_catalog"
    with open_once(flavor, f"{postgres_url}?{options}") as once:
        for place, step in enumerate(["0", "1 hour", "-2 hours", "1 hour"]):
            clock(step)
            for number in range(3):
                assert once.run(f"key {place} {number}", lambda: "ran") == "ran"
                assert once.seen(f"id {place} {number}") is False


def _refused(call):
    try:
        call()
    except StoreUnavailable:
        return True
    return False


@both_flavors
def test_calls_that_time_out_leave_no_connection_behind(own_postgres, flavor):
    server = own_postgres(settings={"max_connections": 20})
    with (
        open_once(flavor, f"{server.url}?timeout=300ms") as once,
        psycopg.connect(server.url, autocommit=True) as watching,
    ):
        once.run("before", int)
        once.seen("before")
        # Commits wait for a standby that is not there, where no timeout of the server's ends them.
        watching.execute("ALTER SYSTEM SET synchronous_standby_names = 'nobody'")
        watching.execute("SELECT pg_reload_conf()")
        early = iter(range(1_000))
        wait_for(
            lambda: _refused(lambda: once.seen(f"early {next(early)}")),
            what="the server to read its settings",
        )
        for number in range(25):
            assert _refused(lambda n=number: once.run(f"key {n}", int) if n % 2 else once.seen(f"id {n}"))
        waiting = f"{OTHERS} AND wait_event = 'SyncRep'"
        wait_for(lambda: watching.execute(waiting).fetchone() == (0,), what="all that waited to be cancelled")
        watching.execute("ALTER SYSTEM RESET synchronous_standby_names")
        watching.execute("SELECT pg_reload_conf()")
        wait_for(lambda: once.run("after", lambda: "ran") == "ran", what="the server to go on")


def test_a_shorter_statement_timeout_of_the_users_stays(postgres_url):
    shown = "SELECT current_setting('statement_timeout')"
    for options, expected in (("", "4500ms"), ("?options=-c%20statement_timeout%3D700ms", "700ms")):
        with Once(f"{postgres_url}{options}") as once:
            pool = once._store.wrapped._pools.get()
            once.check()
            [connection] = pool._idle
            connection.deadline += 10
            assert connection.execute(shown).fetchone() == (expected,)


@both_flavors
def test_a_forget_whose_reply_was_lost_is_not_sent_again(postgres_url, flavor):
    """The second copy would forget what was made since."""
    with contextlib.closing(Proxy(postgres_url)) as proxy, open_once(flavor, proxy.url) as once:
        once.run("key", lambda: 1)
        proxy.lose("reply", b"WITH wanted")
        with pytest.raises(StoreUnavailable):
            once.forget("key")
        assert proxy.lost.is_set()
        assert proxy.count(b"WITH wanted") == 1
        assert once.get("key") is None


@both_flavors
def test_a_forget_that_was_long_under_way_forgets_nothing(postgres_url, watching, flavor):
    with (
        Once(postgres_url) as other,
        contextlib.closing(Proxy(postgres_url)) as proxy,
        open_once(flavor, f"{proxy.url}?timeout=700ms") as once,
    ):
        once.run("key", lambda: "first")
        proxy.hold()
        with pytest.raises(StoreUnavailable):
            once.forget("key")
        other.forget("key")
        other.run("key", lambda: "second")
        proxy.let_go()
        wait_for(lambda: watching(OTHERS) == 1, what="the connection that was given up to end")
        assert other.run("key", lambda: "third") == "second"
