# No twin: a thread's wait ends only by the socket here, a task's can be cut short from outside in the async counterpart.
"""What is said on a connection of redis-py, for threads: packed commands there, plain replies back."""

import time
from collections.abc import Callable
from functools import partial
from inspect import Parameter, signature
from typing import Any

from redis import exceptions as theirs

from dupeproof.stores.redis.resp import error_of


def converse(connection: Any, payload: bytes, count: int, until: float) -> list[Any]:
    """The replies; errors among them as values. After any other error the connection is closed."""
    connection.send_packed_command([payload])
    limit = connection.socket_timeout
    replies = []
    for _ in range(count):
        left = until - time.monotonic()
        # Where the client's own limit is the same, or shorter, it is enough.
        if (limit is None or left < limit / 2) and not _is_readable(connection, left):
            connection.disconnect()
            raise theirs.TimeoutError("no answer in time")
        replies.append(_reply(connection))
    return replies


def _reply(connection: Any) -> Any:
    try:
        return connection.read_response(disable_decoding=True, disconnect_on_error=True)
    except theirs.ResponseError as exc:
        return error_of(str(exc)) if type(exc) is theirs.ResponseError else exc


def _is_readable(connection: Any, seconds: float) -> bool:
    try:
        return bool(connection.can_read(max(0.0, seconds)))
    except BaseException:
        connection.disconnect()
        raise


def getter(pool: Any) -> Callable[[], Any]:
    """What takes a connection from the pool. Before redis-py 5.3 it wanted the name of a command, and now warns of it."""
    named = signature(pool.get_connection).parameters.get("command_name")
    if named is not None and named.default is Parameter.empty:
        return partial(pool.get_connection, "EVALSHA")
    get: Callable[[], Any] = pool.get_connection
    return get


def look_again(client: Any, *, first: bool) -> None:
    """Let a cluster's client read which node serves what. When it is made, it has done so."""
    if not first:
        client.nodes_manager.initialize()


def connections_of(client: Any, node: Any) -> Any:
    """The pool of a cluster's node."""
    return client.get_redis_connection(node).connection_pool
