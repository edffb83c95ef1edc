# Written by tools/twins.py from src/dupeproof/sql/hosts_async.py; change that file instead.
"""Connecting to the first host of a PostgreSQL URL that answers. Each has its share of the time."""

import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any, TypeVar

import psycopg
from psycopg import Connection

from dupeproof.errors import StoreUnavailable
from dupeproof.sql.addresses import addresses_of
from dupeproof.sql.database_option import reaching
from dupeproof.sql.postgres import Host, Hosts, advice, check_options, most_telling, parameters, timeout

C = TypeVar("C")


def connected(hosts: Hosts, deadline: float, connect: Callable[[str, float], C]) -> tuple[C, Host]:
    """What `connect` makes of the conninfo of a host, by the moment it is given; and which host that was.

    A name may stand for several addresses, which share the time of their host.
    """
    errors: list[psycopg.Error] = []
    in_turn = hosts.in_turn(time.monotonic())
    for place, host in enumerate(in_turn):
        until = _share(deadline, len(in_turn) - place, hosts.patience)
        try:
            addresses = addresses_of(host, until)
        except psycopg.Error as exc:
            errors.append(exc)
            addresses = []
        for number, address in enumerate(addresses):
            share = _share(until, len(addresses) - number)
            try:
                conninfo = hosts.conninfo(host, address, share - time.monotonic())
                connection = connect(conninfo, share)
            except psycopg.Error as exc:
                check_options(str(exc))
                errors.append(exc)
            else:
                hosts.answered(host)
                return connection, host
        hosts.silent(host, time.monotonic())
    raise most_telling(errors)


def _share(deadline: float, left: int, most: float = float("inf")) -> float:
    now = time.monotonic()
    return now + min((deadline - now) / left, most)


class Database:
    """Transactions, each on a new connection. It remembers which of several hosts did not answer."""

    def __init__(self, url: str) -> None:
        self._hosts = Hosts(parameters(url, "database="), "database=")
        self._timeout = timeout(url)

    @contextmanager
    def transaction(self) -> Iterator[Connection[Any]]:
        with reaching(advice):
            connection, _ = connected(self._hosts, time.monotonic() + self._timeout, _connect)
        try:
            with connection, connection.transaction():
                yield connection
        except psycopg.errors.ProtocolViolation as exc:  # a pooler's word: it has no transactions
            raise StoreUnavailable(f"the database {advice(str(exc))}") from exc


def _connect(conninfo: str, _: float) -> Connection[Any]:
    return Connection.connect(conninfo)
