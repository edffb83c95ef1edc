"""Telling a server that nobody waits for a statement any more, so that it stops and its process is free for others.

It takes a connection of its own and, from a server that hangs, gets no answer. So a thread does it, and not the caller,
whose time is over. A few at a time are enough: one that is left out is ended by the timeout it has on the server.
"""

import os
import threading
import time
from collections.abc import Callable

import psycopg
from psycopg import pq
from psycopg.pq.abc import PGconn

from dupeproof.core.events import logger
from dupeproof.stores.postgres.readiness import Watch

_AT_ONCE = 8
_PATIENCE = 2.0
"""Seconds for the server to take it."""
_under_way: list[tuple[int, threading.Thread]] = []


def cancel(pgconn: PGconn, drop: Callable[[], None]) -> None:
    """Returns at once. The connection is dropped when the server has heard of it: a pooler forgets who has left."""
    mine = os.getpid()
    _under_way[:] = [(pid, thread) for pid, thread in _under_way if pid == mine and thread.is_alive()]
    if len(_under_way) >= _AT_ONCE:
        drop()
        return
    try:
        arguments = (_sender(pgconn), drop)
        thread = threading.Thread(target=_send, args=arguments, name="dupeproof-cancel", daemon=True)
        thread.start()
    except (psycopg.Error, RuntimeError) as exc:  # no thread can be started when the interpreter ends
        logger.debug("A statement was not cancelled: %s", exc)
        drop()
    else:
        _under_way.append((mine, thread))


def _sender(pgconn: PGconn) -> Callable[[], None]:
    if psycopg.capabilities.has_cancel_safe():
        request = pgconn.cancel_conn()
        return lambda: _converse(request)
    if pq.__impl__ == "python":
        return pgconn.get_cancel().cancel
    # Before libpq 17 there is only a call that waits for as long as the server does. In C nothing else runs meanwhile.
    return lambda: None


def _send(sender: Callable[[], None], drop: Callable[[], None]) -> None:
    try:
        sender()
    except (psycopg.Error, OSError) as exc:
        logger.debug("A statement was not cancelled: %s", exc)
    finally:
        drop()


def _converse(request: pq.abc.PGcancelConn) -> None:
    deadline = time.monotonic() + _PATIENCE
    try:
        request.start()
        while (status := request.poll()) in (pq.PollingStatus.READING, pq.PollingStatus.WRITING):
            Watch(request.socket).wait(deadline, writing=status == pq.PollingStatus.WRITING)
    finally:
        request.finish()
