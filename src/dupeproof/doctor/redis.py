"""Redis, one node or many: does it forget, lose or evict records."""

import statistics
import time
from collections.abc import Iterator
from contextlib import closing
from typing import Any

from msgspec import Struct
from redis.exceptions import ResponseError

from dupeproof.core.plurals import counted
from dupeproof.core.states import State
from dupeproof.doctor.common import judge_clock, judge_latency, judge_waiting
from dupeproof.doctor.findings import Finding, error, note, warning
from dupeproof.errors import DupeproofError
from dupeproof.stores.redis import open_sync
from dupeproof.stores.redis.client import Client
from dupeproof.stores.redis.faults import translated
from dupeproof.stores.redis.layout import info as parsed_info
from dupeproof.stores.redis.resp import pack
from dupeproof.stores.redis.targets import target
from dupeproof.stores.redis.topology import Server
from dupeproof.stores.urls import StoreURL

OLDEST_VERSION = (7, 0)
_PINGS = 7
_FULL_FROM = 0.9
_MOST_WAITING = 100_000


class NodeFacts(Struct, frozen=True, kw_only=True):
    """Of one primary. None where the server would not say."""

    version: str
    policy: str
    max_memory: int
    used_memory: int
    append_only: bool
    append_fsync: str | None
    save: str | None
    is_replica: bool
    replicas: int
    min_replicas: int | None
    cluster_state: str | None
    latency: float
    """Milliseconds."""
    clock_apart: float
    """Seconds."""


def look(url: StoreURL) -> tuple[list[NodeFacts], str]:
    """The facts of every primary, and what kind of set-up it is."""
    wanted = target(url)
    client = Client(wanted)
    try:
        with translated(wanted.shown):
            return [_facts(node) for node in client.primaries()], wanted.kind
    finally:
        client.close()


def judge_keys(url: StoreURL) -> Iterator[Finding]:
    """Of all nodes together: those that wait for a person, by their index."""
    try:
        with closing(open_sync(url)) as store:
            waiting = store.waiting(_MOST_WAITING)
    except DupeproofError as exc:
        yield note(
            "keys-hidden",
            f"held and dead keys could not be looked at: {exc}",
            "some may wait for a person",
            "mend what else is found here, or give this user the rights that a guard needs",
        )
        return
    held = [each for each in waiting if each.record.situation(each.now) is State.HELD]
    dead = sum(each.record.situation(each.now) is State.DEAD for each in waiting)
    longest = max((each.now - each.record.since(each.now) for each in held), default=None)
    yield from judge_waiting(len(held), None if longest is None else longest / 1_000, dead)


def judge(nodes: list[NodeFacts], kind: str) -> Iterator[Finding]:
    for node in nodes:
        yield from _judge_memory(node)
        yield from _judge_durability(node)
        yield from _judge_replicas(node, kind)
        yield from judge_latency(node.latency)
        yield from judge_clock(node.clock_apart)
        if tuple(int(part) for part in node.version.split(".")[:2]) < OLDEST_VERSION:
            yield error(
                "version",
                f"this is Redis {node.version}",
                "a claim is one SET with both NX and GET, which Redis knows since 7.0",
                "use Redis 7.0 or newer",
            )
        if node.cluster_state not in (None, "ok"):
            yield error(
                "cluster-state",
                f"the cluster says its state is {node.cluster_state}",
                "some keys have no node; calls with those keys fail",
                "see CLUSTER INFO and CLUSTER NODES, and bring back the nodes that are missing",
            )


def _judge_memory(node: NodeFacts) -> Iterator[Finding]:
    if node.policy != "noeviction":
        yield error(
            "eviction",
            f"maxmemory-policy is {node.policy}",
            "when memory is full the server removes claims and marks before their time, and what they stood for happens twice",
            "CONFIG SET maxmemory-policy noeviction, and in redis.conf; full memory is then an error and not a duplicate",
        )
    if node.max_memory and node.used_memory > _FULL_FROM * node.max_memory:
        yield warning(
            "memory-full",
            f"{node.used_memory / node.max_memory:.0%} of maxmemory is used",
            "with noeviction new claims are refused when it is full; with any other policy old ones are forgotten",
            "raise maxmemory, shorten windows, or use CompactSeen for plain marks; `dupeproof plan` counts it out",
        )


def _judge_durability(node: NodeFacts) -> Iterator[Finding]:
    saves = bool(node.save) if node.save is not None else None
    if not node.append_only and saves is False:
        yield error(
            "no-persistence",
            "neither appendonly nor save is on",
            "a restart forgets everything, and all that comes again after it counts as new",
            "CONFIG SET appendonly yes, and in redis.conf; or keep PostgreSQL behind it: redis://…+postgresql://…",
        )
    elif not node.append_only:
        yield warning(
            "snapshots-only",
            "appendonly is off; there are snapshots at most",
            "a crash forgets what was claimed since the last snapshot, up to minutes",
            "CONFIG SET appendonly yes, and in redis.conf",
        )
    elif node.append_fsync == "no":
        yield warning(
            "fsync",
            "appendfsync is no",
            "if the machine itself dies, what was claimed since the system last wrote to disk is forgotten, up to half a minute",
            "CONFIG SET appendfsync everysec, or always, and in redis.conf",
        )
    elif node.append_fsync not in (None, "always"):
        yield note(
            "fsync",
            f"appendfsync is {node.append_fsync}",
            "if the machine itself dies, not only Redis, up to a second of claims is forgotten",
            "CONFIG SET appendfsync always where that second counts; it costs a disk write per call",
        )
    if saves is None:
        yield note(
            "config-hidden",
            "this user may not read CONFIG",
            "whether snapshots are on could not be looked at",
            "nothing, if your provider documents it; or allow +config|get",
        )


def _judge_replicas(node: NodeFacts, kind: str) -> Iterator[Finding]:
    if node.is_replica:
        yield error(
            "replica",
            "this server is a replica",
            "it takes no writes; if it does, its primary undoes them without a word",
            "point the URL at the primary, or use redis+sentinel://…, which finds it",
        )
    if node.replicas and node.min_replicas == 0:
        yield warning(
            "replicas-unasked",
            f"{counted(node.replicas, 'replica is', 'replicas are')} connected, and min-replicas-to-write is not set",
            "a primary cut off from its replicas goes on answering; after a fail-over what it said is forgotten",
            "CONFIG SET min-replicas-to-write 1, and min-replicas-max-lag 10; it narrows the gap and cannot close it",
        )
    if kind in ("cluster", "sentinel") and not node.replicas:
        yield warning(
            "no-replica",
            "a primary has no replica",
            "when it is gone, so is everything it remembered, and its keys have nowhere to go",
            "give every primary at least one replica",
        )


def _facts(node: Server) -> NodeFacts:
    info: dict[str, str] = {}
    for section in (b"server", b"memory", b"persistence", b"replication", b"cluster"):
        info |= parsed_info(node.ask(pack(b"INFO", section)))
    config = _config(node)
    latencies, apart = _timed(node)
    least = config.get("min-replicas-to-write", config.get("min-slaves-to-write"))
    state = None
    if info.get("cluster_enabled") == "1":
        state = parsed_info(node.ask(pack(b"CLUSTER", b"INFO"))).get("cluster_state")
    return NodeFacts(
        version=info["redis_version"],
        policy=info["maxmemory_policy"],
        max_memory=int(info["maxmemory"]),
        used_memory=int(info["used_memory"]),
        append_only=info["aof_enabled"] == "1",
        append_fsync=config.get("appendfsync"),
        save=config.get("save"),
        is_replica=info.get("role") == "slave",
        replicas=int(info.get("connected_slaves", 0)),
        min_replicas=None if least is None else int(least),
        cluster_state=state,
        latency=statistics.median(latencies),
        clock_apart=apart,
    )


def _config(node: Server) -> dict[str, str]:
    names = (b"save", b"appendfsync", b"min-replicas-to-write")
    found: dict[str, str] = {}
    for name in names:
        try:
            answer: Any = node.ask(pack(b"CONFIG", b"GET", name))
        except ResponseError:  # a right that is missing, or a provider that has no such command
            return {}
        found |= {answer[0].decode(): answer[1].decode()} if len(answer) == 2 else {}
    return found


def _timed(node: Server) -> tuple[list[float], float]:
    """Round trips in milliseconds, and how far ahead of ours the server's clock is, in seconds."""
    taken, apart = [], []
    for _ in range(_PINGS):
        wall, began = time.time(), time.perf_counter()
        seconds, micros = node.ask(pack(b"TIME"))
        took = time.perf_counter() - began
        taken.append(took * 1_000)
        apart.append(int(seconds) + int(micros) / 1e6 - (wall + took / 2))
    return taken, statistics.median(apart)
