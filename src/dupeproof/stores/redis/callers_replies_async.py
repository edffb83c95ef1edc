# No twin: a task's wait can be cut short from outside here, a thread's only by the socket in the sync counterpart.
"""What is said on a connection of redis-py, for tasks: packed commands there, plain replies back, in time."""

import time
from collections.abc import Awaitable, Callable
from typing import Any

from redis import exceptions as theirs

from dupeproof.stores.redis.callers_replies import getter as taker
from dupeproof.stores.redis.resp import error_of
from dupeproof.stores.runtime_async import to_the_end


async def converse(connection: Any, payload: bytes, count: int, until: float) -> list[Any]:
    """The replies; errors among them as values. After any other error the connection is closed."""

    async def said() -> list[Any]:
        await connection.send_packed_command([payload])
        return [await _reply(connection) for _ in range(count)]

    try:
        return await to_the_end(until - time.monotonic(), said)
    except TimeoutError:
        raise theirs.TimeoutError("no answer in time") from None


async def _reply(connection: Any) -> Any:
    try:
        return await connection.read_response(disable_decoding=True, disconnect_on_error=True)
    except theirs.ResponseError as exc:
        return error_of(str(exc)) if type(exc) is theirs.ResponseError else exc


def getter(pool: Any) -> Callable[[], Awaitable[Any]]:
    """What takes a connection from the pool; not one the server has closed.

    redis-py looks for that too, but since version 8 takes the end of a connection for a notification.
    """
    get = taker(pool)

    async def taken() -> Any:
        connection = await get()
        if hasattr(connection, "can_read"):
            try:
                await _renewed(connection)
            except BaseException:
                await pool.release(connection)
                raise
        return connection

    return taken


async def _renewed(connection: Any) -> None:
    if await _is_stale(connection):
        await connection.disconnect(nowait=True)
        await connection.connect()


class NodeConnections:
    """The connections of a cluster's node; in the form of a pool, which it is not."""

    def __init__(self, node: Any) -> None:
        self._node = node

    async def get_connection(self) -> Any:
        connection = self._node.acquire_connection()
        try:
            await connection.connect()
            await _renewed(connection)
        except BaseException:
            self._node.release(connection)
            raise
        return connection

    async def release(self, connection: Any) -> None:
        self._node.release(connection)


async def _is_stale(connection: Any) -> bool:
    """An idle connection has nothing to say. If it does, the server has closed it."""
    try:
        look = getattr(connection, "can_read", None) or connection.can_read_destructive  # before redis-py 8
        return bool(await look())
    except (theirs.ConnectionError, OSError):
        return True


async def look_again(client: Any, *, first: bool) -> None:
    """Let a cluster's client read which node serves what. Only one that was initialized is closed by its `aclose`."""
    await client.initialize()
    if not first:
        await client.nodes_manager.initialize()


def connections_of(client: Any, node: Any) -> Any:  # noqa: ARG001 - the sync client has to be asked
    if not hasattr(node, "release"):
        raise theirs.ClusterError(
            "redis.asyncio.RedisCluster of redis-py before 6.0 cannot be used; upgrade it"
        )
    return NodeConnections(node)
