"""Which node of a Redis Cluster serves which hash tag. With 64 tags that is a table of 64 entries.

Not redis-py's RedisCluster: it repeats commands whose reply was lost, which would turn a mark of our own into a
duplicate, and its async one fails when its first commands arrive together.
"""

import time
from typing import Any

from redis.asyncio import Redis
from redis.exceptions import RedisError

from dupeproof.stores.redis.layout import TAGS
from dupeproof.stores.redis.slots import served_by
from dupeproof.stores.redis.targets import Address

_ASKED_IN_TURN = 4
"""How many nodes may keep silent, one after the other, before the time of a call is used up."""


class AsyncCluster:
    def __init__(self, hosts: list[Address], options: dict[str, Any], timeout: float) -> None:
        self._hosts = hosts
        self._options = options
        self._timeout = timeout
        self._nodes: dict[Address, Any] = {}
        self._routes: dict[int, Address] = {}

    async def node_for(self, tag: int) -> Any:
        if not self._routes:
            await self.refresh()
        return self.node(self._routes[tag])

    def node(self, address: Address) -> Any:
        if address in self._nodes:
            return self._nodes[address]
        return self._nodes.setdefault(address, Redis(host=address[0], port=address[1], **self._options))

    async def nodes(self) -> list[Any]:
        if not self._routes:
            await self.refresh()
        return [self.node(address) for address in sorted(set(self._routes.values()))]

    async def refresh(self) -> None:
        """Ask the nodes we know, then those of the URL, for the first usable picture of the cluster."""
        deadline = time.monotonic() + self._timeout
        known = dict.fromkeys([*self._routes.values(), *self._hosts])
        failure: Exception | None = None
        for address in known:
            try:
                slots = await self._ask(address)
                self._routes = {tag: served_by(tag, slots, address) for tag in TAGS}
            except (RedisError, OSError) as exc:
                failure = exc
            else:
                return
            if time.monotonic() > deadline:
                break
        if failure is not None and not self._routes:
            raise failure

    async def _ask(self, address: Address) -> Any:
        """On a connection of its own with little patience: a node that hangs must leave time for the next."""
        patience = self._timeout / _ASKED_IN_TURN
        timeouts = {"socket_timeout": patience, "socket_connect_timeout": patience}
        async with Redis(host=address[0], port=address[1], **{**self._options, **timeouts}) as node:
            return await node.execute_command("CLUSTER SLOTS")

    async def aclose(self) -> None:
        for node in self._nodes.values():
            await node.aclose()
