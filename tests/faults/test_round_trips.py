"""What a call costs: two round trips for a new key, one for a replay, one for a thousand ids."""

import contextlib
import socket
from urllib.parse import urlsplit

import pytest

from dupeproof_lab.servers.postgres import run_sql
from support.flavors import both_flavors, open_once
from support.proxy import Proxy
from support.stores import on

MARKER = "the end of what is counted"


class Monitor:
    """The commands a Redis was sent, as MONITOR shows them; not what its scripts call, nor TIME, which travels with a claim."""

    def __init__(self, url):
        self._place = (urlsplit(url).hostname, urlsplit(url).port)

    @contextlib.contextmanager
    def counting(self):
        commands = []
        with socket.create_connection(self._place, 5) as watching, watching.makefile("rb") as lines:
            watching.sendall(b"MONITOR\r\n")
            assert lines.readline() == b"+OK\r\n"
            yield commands
            with socket.create_connection(self._place, 5) as other:
                other.sendall(f'PING "{MARKER}"\r\n'.encode())
            while MARKER not in (line := lines.readline().decode(errors="replace")):
                if " lua] " not in line and (command := line.split('"')[1]) != "TIME":
                    commands.append(command)


class Statements:
    """The statements a PostgreSQL database was sent, as pg_stat_statements counts them; not those inside functions."""

    def __init__(self, url):
        self._url = url
        run_sql(url, "CREATE EXTENSION IF NOT EXISTS pg_stat_statements")

    @contextlib.contextmanager
    def counting(self):
        before = self._calls()
        commands = []
        yield commands
        for query, calls in self._calls().items():
            commands += [query] * (calls - before.get(query, 0))

    def _calls(self):
        text = run_sql(
            self._url,
            "SELECT md5(query) || ' ' || calls FROM pg_stat_statements WHERE query NOT LIKE '%pg_stat_statements%' "
            "AND dbid = (SELECT oid FROM pg_database WHERE datname = current_database())",
        )
        return {line.split()[0]: int(line.split()[1]) for line in text.splitlines()}


@pytest.fixture
def server(url):
    return (Monitor if url.startswith("redis") else Statements)(url)


@pytest.fixture
def proxy(url):
    with contextlib.closing(Proxy(url)) as proxy:
        yield proxy


@pytest.fixture
def cost(server, proxy):
    """Commands the server got, and round trips on the wire, of one call."""

    def cost(call):
        already = len(proxy.requests)
        with server.counting() as commands:
            call()
        return len(commands), len(proxy.requests) - already

    return cost


@both_flavors
@on("redis", "postgres")
def test_a_new_call_costs_two_round_trips_and_a_replay_one(proxy, cost, flavor):
    with open_once(flavor, proxy.url) as once:
        once.run("before", int)  # connected, schema made, scripts known
        assert cost(lambda: once.run("key", int)) == (2, 2)
        assert cost(lambda: once.run("key", int)) == (1, 1)


@both_flavors
@on("redis", "postgres")
def test_a_call_that_fails_costs_two_round_trips_and_the_next_attempt_one_more_on_redis(proxy, cost, flavor):
    def fail():
        with pytest.raises(ZeroDivisionError):
            once.run("key", lambda: 1 // 0)

    with open_once(flavor, proxy.url) as once:
        once.run("before", int)
        with pytest.raises(ZeroDivisionError):
            once.run("before too", lambda: 1 // 0)
        once.run("before too", int)
        assert cost(fail) == (2, 2)
        # A free key is taken by one command; whether a failed one may be takes a script, asked second.
        trips = 3 if proxy.url.startswith("redis") else 2
        assert cost(lambda: once.run("key", int)) == (trips, trips)


@both_flavors
@on("redis", "postgres")
def test_a_thousand_ids_cost_one_round_trip(proxy, cost, flavor):
    ids = [f"id-{number}" for number in range(1000)]
    with open_once(flavor, proxy.url) as once:
        once.seen("before")
        for _ in range(2):
            _, trips = cost(lambda: once.fresh(ids))
            # Redis may begin to answer before it has read it all.
            assert trips <= (2 if proxy.url.startswith("redis") else 1)
        assert cost(lambda: once.seen("one more")) == (1, 1)
        assert once.fresh(ids) == []
