"""Several hosts in a URL: one that is frozen, silent or gone is left for the next in a bounded time."""

import contextlib
import socket
import time

import psycopg
import pytest

from dupeproof import AsyncInbox, Inbox, Once, Outbox, Relay, StoreUnavailable
from dupeproof.stores.postgres.target import target
from dupeproof.stores.urls import parse_url
from support.flavors import both_flavors, open_once

TIMEOUT = 3.0
SLACK = 1.5


@pytest.fixture
def silent():
    """A host that takes connections and says nothing."""
    with socket.create_server(("127.0.0.1", 0), backlog=100) as listener:
        yield f"127.0.0.1:{listener.getsockname()[1]}"


@pytest.fixture
def unreachable():
    """A host whose backlog is full: connecting to it gets no answer at all."""
    with contextlib.ExitStack() as stack:
        listener = stack.enter_context(socket.create_server(("127.0.0.1", 0), backlog=0))
        for _ in range(3):
            caller = stack.enter_context(socket.socket())
            caller.setblocking(False)
            caller.connect_ex(listener.getsockname())
        yield f"127.0.0.1:{listener.getsockname()[1]}"


@pytest.fixture(params=["silent", "unreachable", "refusing"])
def first(request):
    return "127.0.0.1:1" if request.param == "refusing" else request.getfixturevalue(request.param)


def behind(first, url, options=""):
    """The URL with another host before its own."""
    user, _, rest = url.rpartition("@")
    return f"{user}@{first},{rest}?timeout={TIMEOUT}s{options}"


def timed(call):
    start = time.monotonic()
    return call(), time.monotonic() - start


@both_flavors
def test_guards_find_the_second_host_and_remember_it(first, postgres_url, flavor):
    with open_once(flavor, behind(first, postgres_url)) as once:
        value, took = timed(lambda: once.run("key", lambda: "ran"))
        assert (value, took < TIMEOUT + SLACK) == ("ran", True)
        assert once.seen("id") is False
        once.close()  # all connections are given up
        value, took = timed(lambda: once.run("key", int))
        assert (value, took < TIMEOUT / 2) == ("ran", True)


async def test_inboxes_and_relays_find_it_too(silent, postgres_url):
    url, sent = behind(silent, postgres_url), []
    inbox = Inbox("billing", database=url)
    with inbox.transaction() as connection:
        inbox.create_schema(connection)
        assert inbox.first(connection, "m-1") is True
        Outbox().add(connection, topic="orders", payload={})
    start = time.monotonic()
    with inbox.transaction() as connection:
        assert inbox.first(connection, "m-1") is False
    assert time.monotonic() - start < TIMEOUT / 2
    async with AsyncInbox("billing", database=url).transaction() as connection:
        assert await AsyncInbox("billing").first(connection, "m-1") is False
    relay = Relay(url, publisher=sent.append)
    relay.run_once()
    relay.close()
    assert len(sent) == 1


@both_flavors
def test_a_host_that_freezes_is_left_by_those_who_are_connected_to_it(own_postgres, postgres_url, flavor):
    server = own_postgres()
    first, second = (url.rpartition("@")[2] for url in (server.url, postgres_url))
    with psycopg.connect(server.url, autocommit=True) as connection:
        name = second.partition("/")[2]
        connection.execute(f"CREATE DATABASE {name}")
        user, password = postgres_url.rpartition("@")[0].partition("://")[2].split(":")
        connection.execute(f"ALTER ROLE {user} PASSWORD '{password}'")
    place = f"{first.partition('/')[0]},{second}"
    with open_once(flavor, f"postgresql://{user}:{password}@{place}?timeout={TIMEOUT}s") as once:
        once.run("on the first", int)
        server.pause()
        # What may be said again is said to the second within the one timeout.
        value, took = timed(lambda: once.run("key", lambda: "ran"))
        assert (value, took < TIMEOUT + SLACK) == ("ran", True)
        value, took = timed(lambda: once.seen("id"))
        assert (value, took < TIMEOUT / 2) == (False, True)
        server.resume()
    with Once(postgres_url) as direct:
        assert direct.run("key", int) == "ran"


def test_a_standby_is_passed_over_for_the_one_that_takes_writes(own_postgres, postgres_url):
    """Read-only by its settings, which is what a standby tells as well."""
    server = own_postgres(settings={"default_transaction_read_only": "on"})
    user, password = postgres_url.rpartition("@")[0].partition("://")[2].split(":")
    with psycopg.connect(server.url, autocommit=True) as connection:
        connection.execute("SET default_transaction_read_only = off")
        connection.execute(f"ALTER ROLE {user} PASSWORD '{password}'")
    first = server.url.rpartition("@")[2].partition("/")[0]
    with Once(behind(first, postgres_url)) as once:
        assert once.run("key", lambda: "ran") == "ran"
    with (
        Once(f"postgresql://{user}:{password}@{first},{first}/postgres?timeout={TIMEOUT}s") as once,
        pytest.raises(StoreUnavailable, match="takes no writes"),
    ):
        once.seen("id")


def test_each_host_has_the_connect_timeout_of_the_url(silent, postgres_url):
    with Once(behind(silent, postgres_url, "&connect_timeout=2").replace(f"{TIMEOUT}s", "20s")) as once:
        value, took = timed(lambda: once.run("key", lambda: "ran"))
    assert (value, took < 2 + SLACK) == ("ran", True)


def test_hosts_are_asked_in_their_order_and_those_that_were_silent_last():
    hosts = target(parse_url("postgresql://a,b,c/shop")).hosts
    a, b, c = hosts.in_turn(0)
    hosts.silent(a, 100)
    assert hosts.in_turn(101) == [b, c, a]
    hosts.silent(b, 110)
    assert hosts.in_turn(111) == [c, a, b]
    hosts.answered(b)
    assert hosts.in_turn(112) == [b, c, a]
    assert hosts.in_turn(131) == [a, b, c]
