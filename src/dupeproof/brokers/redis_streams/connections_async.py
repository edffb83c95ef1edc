"""A client of redis-py for what a URL names: one server, the primary that Sentinels know, or a Cluster."""

import asyncio
from typing import Any

import redis.asyncio as redis
from redis.asyncio.cluster import ClusterNode
from redis.asyncio.retry import Retry
from redis.asyncio.sentinel import Sentinel
from redis.backoff import NoBackoff

from dupeproof.brokers.redis_streams.driver import OPTIONS, address
from dupeproof.stores.redis.targets import target
from dupeproof.stores.urls import parse_url

_cluster_node: Any = ClusterNode
_sentinel: Any = Sentinel
"""Which have no types."""
_TO_CLOSE = 0.02


def connected(url: str) -> Any:
    """Connects when it is used. Asks the Sentinels for each connection, and a Cluster for its slots."""
    plain, secured = address(url)
    if "+" not in url.partition("://")[0]:
        return redis.Redis.from_url(plain, **OPTIONS, **secured)
    found = target(parse_url(url))
    login = {"username": found.link.username, "password": found.link.password}
    timeouts = {name: value for name, value in OPTIONS.items() if name.startswith("socket_")}
    # A command whose reply was lost is not sent again; redirections are followed all the same.
    options = {**timeouts, **login, **secured, "retry": Retry(NoBackoff(), 0)}
    if found.kind == "cluster":
        nodes = [_cluster_node(host, port) for host, port in found.hosts]
        return redis.RedisCluster(startup_nodes=nodes, **options)
    asking = {
        **timeouts,
        **secured,
        "username": found.sentinel_link.username,
        "password": found.sentinel_link.password,
    }
    sentinel = _sentinel(found.hosts, sentinel_kwargs=asking, db=found.link.database, **options)
    return sentinel.master_for(found.service)


async def disconnect(client: Any) -> None:
    """Also from the Sentinels that were asked, which the driver leaves to us."""
    await client.aclose()
    if hasattr(client, "nodes_manager"):
        # The driver closes connections to nodes that it has replaced in tasks of their own, which end before the loop does.
        await asyncio.sleep(_TO_CLOSE)
    manager = getattr(getattr(client, "connection_pool", None), "sentinel_manager", None)
    for each in () if manager is None else manager.sentinels:
        await each.aclose()
