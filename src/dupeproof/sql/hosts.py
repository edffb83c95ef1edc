# Written by tools/twins.py from src/dupeproof/sql/hosts_async.py; change that file instead.
"""Connecting to the first host of a PostgreSQL URL that answers. Each has its share of the time."""

import time
from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager, suppress
from typing import Any, TypeVar

import psycopg
from psycopg import Connection
from psycopg.pq import TransactionStatus

from dupeproof.errors import StoreUnavailable
from dupeproof.process_local import PerProcess
from dupeproof.sql.addresses import addresses_of
from dupeproof.sql.database_option import reaching
from dupeproof.sql.postgres import (
    Host,
    Hosts,
    advice,
    check_options,
    most_telling,
    parameters,
    pool_size,
    timeout,
)

C = TypeVar("C")
_PREPARED_AFTER = 5
"""Executions, as psycopg does it."""
_KEPT_FOR = 60.0
"""Seconds. What stands between drops idle connections without a word, after some minutes."""


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


class KeptConnection(Connection[Any]):
    """One that may be forgotten without a word: what is below it closes itself, in the process that has opened it."""

    def __del__(self, _: object = None) -> None:
        """Says nothing."""


class Database:
    """Transactions, on connections that are kept for the next one. It remembers which of several hosts did not answer.

    A connection is kept if its transaction ended well, for a minute. The statement that begins the next transaction tells
    whether it is still good. Behind a pooler nothing is prepared: each transaction may be with another server.
    """

    def __init__(self, url: str) -> None:
        self._timeout = timeout(url)
        found = parameters(url, "database=")
        found.setdefault("tcp_user_timeout", str(round(self._timeout * 1_000)))
        self._hosts = Hosts(found, "database=")
        self._most = pool_size(url)
        self._idle: PerProcess[list[Idle]] = PerProcess(list, list.clear)

    @contextmanager
    def transaction(self) -> Iterator[Connection[Any]]:
        idle = self._idle.get()
        connection, ended_well = None, False
        try:
            with ExitStack() as begun:
                connection = self._begun(idle, begun)
                yield connection
            ended_well = True
        except psycopg.errors.ProtocolViolation as exc:  # a pooler's word: it has no transactions
            raise StoreUnavailable(f"the database {advice(str(exc))}") from exc
        finally:
            if connection is not None:
                self._give_back(idle, connection, ended_well=ended_well)

    def _begun(self, idle: list["Idle"], begun: ExitStack) -> KeptConnection:
        """A connection in a transaction, which ends with `begun`."""
        while (found := _latest(idle)) is not None:
            connection, since = found
            if time.monotonic() - since < _KEPT_FOR and not connection.closed:
                with suppress(psycopg.OperationalError):  # it was lost meanwhile, and nothing is done
                    begun.enter_context(connection.transaction())
                    return connection
            connection.close()
        with reaching(advice):
            connection, _ = connected(self._hosts, time.monotonic() + self._timeout, _connect)
        try:
            begun.enter_context(connection.transaction())
        except BaseException:
            connection.close()
            raise
        return connection

    def _give_back(self, idle: list["Idle"], connection: KeptConnection, *, ended_well: bool) -> None:
        is_fine = ended_well and connection.info.transaction_status == TransactionStatus.IDLE
        if is_fine and len(idle) < self._most and self._idle.get() is idle:  # else it was closed meanwhile
            idle.append((connection, time.monotonic()))
        else:
            connection.close()

    def close(self) -> None:
        """What is in use is closed when it is given back. It opens again when it is used again."""
        idle = self._idle.take()
        while idle and (found := _latest(idle)) is not None:
            found[0].close()


Idle = tuple[KeptConnection, float]
"""And since when."""


def _latest(idle: list[Idle]) -> Idle | None:
    try:
        return idle.pop()
    except IndexError:  # other threads take some meanwhile
        return None


def _connect(conninfo: str, _: float) -> KeptConnection:
    """Statements are prepared where the process that answers is the one that was promised: a pooler promises another."""
    connection = KeptConnection.connect(conninfo, autocommit=True, prepare_threshold=None)
    try:
        found = (connection.execute("SELECT pg_backend_pid()")).fetchone()
        if found == (connection.info.backend_pid,):
            connection.prepare_threshold = _PREPARED_AFTER
        connection.set_autocommit(False)
    except BaseException:
        connection.close()
        raise
    return connection
