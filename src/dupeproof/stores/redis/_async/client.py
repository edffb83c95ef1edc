"""A redis-py client for a target, remade where it cannot be carried over, and script calls on it."""

import time
from collections.abc import Sequence
from typing import Any

from redis.asyncio import Redis
from redis.asyncio.cluster import ClusterNode, RedisCluster
from redis.asyncio.retry import Retry
from redis.asyncio.sentinel import Sentinel
from redis.backoff import NoBackoff
from redis.exceptions import NoScriptError

from dupeproof.stores._async.runtime import gather, home, sleep
from dupeproof.stores.redis.faults import CONNECTION_LOST, translated
from dupeproof.stores.redis.scripting import script
from dupeproof.stores.redis.targets import Target

_FAILOVER_PAUSE = 0.1


class AsyncClient:
    """Runs one script on many keys. Does not repeat a call by itself unless told that it may."""

    def __init__(self, target: Target) -> None:
        self._target = target
        self._client: Any = None
        self._home: object = None

    @property
    def is_cluster(self) -> bool:
        return self._target.kind == "cluster"

    @property
    def shown(self) -> str:
        return self._target.shown

    async def call(
        self, name: str, groups: Sequence[tuple[list[bytes], list[bytes]]], *, repeat: bool
    ) -> list[Any]:
        """The script's answers for each group of keys, in order; all keys of a group live in one slot."""
        with translated(self._target.shown):
            if len(groups) == 1:
                return [await self._call(name, *groups[0], repeat=repeat)]
            return await gather([self._call(name, keys, args, repeat=repeat) for keys, args in groups])

    async def _call(self, name: str, keys: list[bytes], args: list[bytes], *, repeat: bool) -> Any:
        deadline = time.monotonic() + self._target.timeout
        tries = 0
        while True:
            tries += 1
            try:
                return await self._evaluate(name, keys, args)
            except CONNECTION_LOST:
                # A lone server gets one more try, for a connection that went stale; a cluster time to fail over.
                if not repeat or (tries > 1 and not self.is_cluster) or time.monotonic() > deadline:
                    raise
                if tries > 1:
                    await sleep(_FAILOVER_PAUSE)

    async def _evaluate(self, name: str, keys: list[bytes], args: list[bytes]) -> Any:
        known = script(name)
        try:
            return await self.client().evalsha(known.sha, len(keys), *keys, *args)
        except NoScriptError:
            # Nothing was run: the server has forgotten its scripts, or never saw this one.
            return await self.client().eval(known.text, len(keys), *keys, *args)

    def client(self) -> Any:
        if self._client is None or self._home is not home():
            self._home = home()
            self._client = self._open()
        return self._client

    async def close(self) -> None:
        client, self._client = self._client, None
        if client is not None and self._home is home():
            with translated(self._target.shown):
                await client.aclose()

    def _open(self) -> Any:
        target = self._target
        once = Retry(NoBackoff(), 0)
        if target.kind == "cluster":
            nodes = [ClusterNode(host, port) for host, port in target.hosts]
            return RedisCluster(startup_nodes=nodes, retry=once, **target.options)
        if target.kind == "sentinel":
            group = Sentinel(target.hosts, sentinel_kwargs=target.sentinel_options)
            return group.master_for(target.service, retry=once, **target.options)
        host, port = target.hosts[0]
        return Redis(host=host, port=port, retry=once, **target.options)
