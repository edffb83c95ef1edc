"""A client of the caller's: redis-py's, with its credentials, TLS, sockets, name resolution and limits.

Its connections are used, and not its commands: those it repeats by itself after a lost reply, and decodes what is no
text. So what is sent, what is sent again and when it is given up is as with connections of our own; see client_async.
Nothing is closed here but a connection on which an answer is missing, which the client then opens again.
"""

import time
from collections.abc import Sequence
from functools import partial
from typing import Any

from redis import exceptions as theirs

from dupeproof import defaults
from dupeproof.core.durations import milliseconds
from dupeproof.errors import ConfigError
from dupeproof.stores.clients import kind_of
from dupeproof.stores.redis.callers_replies_async import connections_of, converse, getter, look_again
from dupeproof.stores.redis.faults import NotSent
from dupeproof.stores.redis.layout import TAGS
from dupeproof.stores.redis.links import TIME, LinkOptions, ServerClock
from dupeproof.stores.redis.resp import Command, replies_to
from dupeproof.stores.redis.store_async import AsyncRedisStore
from dupeproof.stores.redis.targets import Address, Kind, Target
from dupeproof.stores.runtime_async import Lock, within

_DEMOTED = "previous master is now a slave"
"""What redis-py makes of a primary that says it is none: a lost connection. But nothing was done."""


def store_over(client: Any) -> AsyncRedisStore:
    kind = kind_of(client)
    if kind is not None and kind.is_cluster:
        settings = client.get_connection_kwargs()
        target = _target("cluster", settings, "redis+cluster://… of the given client")
        return AsyncRedisStore(target, lambda: AsyncCallersCluster(client, target.timeout))
    pool = client.connection_pool
    is_sentinel = hasattr(pool, "sentinel_manager")
    if is_sentinel and not pool.is_master:
        raise ConfigError("this client reads from replicas; give sentinel.master_for(name)")
    shown = f"redis+sentinel://…/{pool.service_name}" if is_sentinel else _shown(pool.connection_kwargs)
    target = _target("sentinel" if is_sentinel else "single", pool.connection_kwargs, shown)
    return AsyncRedisStore(target, lambda: AsyncCallersServer(pool, target.timeout))


def _target(kind: Kind, settings: dict[str, Any], shown: str) -> Target:
    given = settings.get("socket_timeout")
    timeout = given or milliseconds(defaults.STORE_TIMEOUT, name="timeout") / 1_000
    link = LinkOptions(timeout=timeout)
    return Target(kind, [], "", shown, link, link)


def _shown(settings: dict[str, Any]) -> str:
    if path := settings.get("path"):
        return f"unix://{path}"
    host, port = settings.get("host", "localhost"), settings.get("port", 6379)
    return f"redis://{host}:{port}/{settings.get('db') or 0}"


class AsyncCallersNode:
    """One server. A connection is taken for each conversation, and given back after it."""

    def __init__(self, pool: Any, timeout: float) -> None:
        self._pool = pool
        self._get = getter(pool)
        self._timeout = timeout
        self._where: tuple[Any, Any] | None = None
        self.clock = ServerClock()

    async def ask(self, command: Command, patience: float | None = None) -> Any:
        """The server's reply; its error, raised. With less patience than usual where that is given, in seconds."""
        replies = await self._ask([command], patience)
        if len(replies) > 1:
            return replies
        [reply] = replies
        if isinstance(reply, Exception):
            try:
                raise reply
            finally:
                del reply, replies  # or the error and this frame would keep each other alive
        return reply

    async def ask_many(self, commands: Sequence[Command]) -> list[Any]:
        """The replies to several commands; errors among them as values."""
        return await self._ask(commands, None)

    async def _ask(self, commands: Sequence[Command], patience: float | None) -> list[Any]:
        until = time.monotonic() + (self._timeout if patience is None else patience)
        connection = await self._taken(until)
        try:
            if self.clock.is_old and not all(type(command) is bytes for command in commands):
                self.clock.read(await converse(connection, TIME, 1, until))
            payload = b"".join(map(self.clock.pack, commands))
            return await converse(connection, payload, replies_to(commands), until)
        except theirs.ConnectionError as exc:
            self.clock.doubt()
            if _DEMOTED in str(exc):
                raise NotSent("is no primary any more") from exc
            raise
        finally:
            await self._pool.release(connection)

    async def _taken(self, until: float) -> Any:
        try:
            connection = await within(until - time.monotonic(), self._get)
        except (theirs.AuthenticationError, theirs.AuthorizationError, theirs.BusyLoadingError):
            raise
        except theirs.MaxConnectionsError as exc:
            raise NotSent(
                "has no connection left in the pool of the given client; raise its max_connections"
            ) from exc
        except (theirs.ConnectionError, theirs.TimeoutError, OSError) as exc:
            raise NotSent(f"cannot be reached: {type(exc).__name__}") from exc
        where = (getattr(connection, "host", None), getattr(connection, "port", None))
        if where != self._where:  # Sentinels have named another primary, which has a clock of its own
            self._where = where
            self.clock.doubt()
        return connection


class AsyncCallersServer:
    """The one server a client speaks to, or the primary Sentinels name to it."""

    def __init__(self, pool: Any, timeout: float) -> None:
        self._node = AsyncCallersNode(pool, timeout)

    def known(self, tag: int) -> AsyncCallersNode:  # noqa: ARG002 - every tag lives here
        return self._node

    async def node_for(self, tag: int) -> AsyncCallersNode:  # noqa: ARG002
        return self._node

    def doubt(self) -> None:
        """The client looks again by itself, for every new connection."""

    async def primaries(self) -> Sequence[AsyncCallersNode]:
        return [self._node]

    async def close(self) -> None:
        """The client is closed by whoever opened it."""

    def discard(self) -> None:
        """The same."""


class AsyncCallersCluster:
    """The primaries of a Cluster, as the client knows them; it is told to look again when they may have changed."""

    def __init__(self, client: Any, timeout: float) -> None:
        self._client = client
        self._timeout = timeout
        self._nodes: dict[str, tuple[Any, AsyncCallersNode]] = {}
        """By name: the client's node, and ours over it."""
        self._routes: dict[int, AsyncCallersNode] = {}
        self._doubts = 1
        self._dispelled = 0
        self._lock = Lock()

    def known(self, tag: int) -> AsyncCallersNode | None:
        return self._routes[tag] if self._dispelled == self._doubts else None

    async def node_for(self, tag: int) -> AsyncCallersNode:
        await self._look()
        return self._routes[tag]

    def node(self, address: Address) -> AsyncCallersNode:
        found = self._client.get_node(*address)
        if found is None:
            raise NotSent("sent us to a node its client does not know yet")
        return self._over(found)

    def doubt(self) -> None:
        self._doubts += 1

    async def _look(self) -> None:
        async with self._lock:
            doubts = self._doubts
            if self._dispelled == doubts:
                return
            try:
                await within(self._timeout, partial(look_again, self._client, first=not self._routes))
            except (
                theirs.ConnectionError,
                theirs.TimeoutError,
                theirs.RedisClusterException,
                OSError,
            ) as exc:
                raise NotSent("has no node that answers") from exc
            self._routes = {tag: self._over(self._client.get_node_from_key(b"{%c}" % tag)) for tag in TAGS}
            self._dispelled = doubts

    def _over(self, node: Any) -> AsyncCallersNode:
        known, ours = self._nodes.get(node.name, (None, None))
        if known is not node or ours is None:
            ours = AsyncCallersNode(connections_of(self._client, node), self._timeout)
            self._nodes[node.name] = (node, ours)
        return ours

    async def primaries(self) -> Sequence[AsyncCallersNode]:
        await self._look()
        return list(dict.fromkeys(self._routes.values()))

    async def close(self) -> None:
        """The client is closed by whoever opened it."""

    def discard(self) -> None:
        """The same."""
