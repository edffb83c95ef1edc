"""Guards that go on through a fail-over: they find the new primary by themselves, and never write to the old one again."""

import asyncio
import contextlib
import time

import pytest

from dupeproof import AsyncOnce, Once, OneTimeTokens, StoreUnavailable
from dupeproof.filters import CompactSeen, SequenceGuard
from support.workers import wait_for

KEYS = [f"key-{number}" for number in range(30)]
"""Enough for every node of a Cluster to have some."""
SECONDS = 5.0


@pytest.fixture(
    params=[
        pytest.param(name, marks=pytest.mark.server(name)) for name in ("redis_sentinel", "redis_cluster")
    ]
)
def group(request):
    if request.param == "redis_sentinel":
        return request.getfixturevalue("own_redis_sentinel")()
    return request.getfixturevalue("own_redis_cluster")(masters=3, replicas=1, node_timeout_ms=1000)


class Verbs:
    """Every verb that reaches Redis, each on an object of its own that lives through it all."""

    def __init__(self, url):
        self._url = f"{url}?timeout=2s"
        self._stack = contextlib.ExitStack()
        self._loop = asyncio.new_event_loop()
        self._stack.callback(self._loop.close)

    def __enter__(self):
        def opened(make, **options):
            return self._stack.enter_context(contextlib.closing(make(self._url, **options)))

        run, seen, fresh = opened(Once), opened(Once), opened(Once)
        compact, sequences = opened(CompactSeen), opened(SequenceGuard)
        tokens = opened(OneTimeTokens, secret="s" * 32)
        tasks = AsyncOnce(self._url)
        self._stack.callback(lambda: self._loop.run_until_complete(tasks.close()))

        async def nothing():
            return None

        self.all = {
            "run": lambda key: run.run(key, int),
            "seen": seen.seen,
            "fresh": lambda key: fresh.fresh([f"{key}-a", f"{key}-b"]),
            "compact": compact.seen,
            "sequence": lambda key: sequences.first(key, 1, 1),
            "redeem": lambda key: tokens.redeem(tokens.issue({"k": key}, ttl="1h"), {"k": key}),
            "async run": lambda key: self._loop.run_until_complete(tasks.run(key, nothing)),
            "async seen": lambda key: self._loop.run_until_complete(tasks.seen(key)),
        }
        return self

    def __exit__(self, *_):
        self._stack.close()

    def on_every_node(self, verb, turn):
        for key in KEYS:
            self.all[verb](f"{verb}-{turn}-{key}")


def primary(group):
    return group.master if hasattr(group, "master") else group.nodes[0]


def wait_for_a_new_primary(group, old):
    if hasattr(group, "wait_failover"):
        group.wait_failover(old)
    else:
        wait_for(lambda: _served_without(group, old), what="the replica to take over")


def _served_without(cluster, old):
    with cluster.nodes[1].connect() as node:
        slots = node.call("CLUSTER", "SLOTS")
        return old not in {primary[1] for _, _, primary, *_ in slots} and len(slots) == 3


@pytest.mark.parametrize("fate", ["silent", "dead"])
def test_every_verb_follows_a_primary_that_is_gone_on_the_same_object(group, fate):
    node = primary(group)
    with Verbs(group.url) as verbs:
        for verb in verbs.all:
            verbs.on_every_node(verb, "before")
        old = group.master_port() if hasattr(group, "master_port") else node.port
        if fate == "silent":
            node.pause()
        else:
            node.kill()
        try:
            wait_for_a_new_primary(group, old)
            took = {}
            for verb in verbs.all:
                began = time.monotonic()
                while True:
                    with contextlib.suppress(StoreUnavailable):
                        verbs.on_every_node(verb, time.monotonic())
                        break
                    assert time.monotonic() < began + 30, f"{verb} still fails"
                took[verb] = time.monotonic() - began
        finally:
            if fate == "silent":
                node.resume()
    assert max(took.values()) < SECONDS, took


def paid_by_both(group, idle, seconds):
    """Pay each bill through a guard from before the fail-over and one from after it: those that were paid twice."""
    paid, began = [], time.monotonic()
    while time.monotonic() < began + seconds or len(paid) <= 20:
        assert time.monotonic() < began + 60, "nothing can be written"
        bill = f"bill-{len(paid)}"
        with (
            Once(group.url, namespace="payments", on_abandoned="hold") as new,
            contextlib.suppress(StoreUnavailable),
        ):
            idle.run(bill, paid.append, bill)
            new.run(bill, paid.append, bill)
    return len(paid) - len(set(paid))


CALM = {"down_after_ms": 4000}
"""A machine that is busy for a second must not look like a second fail-over, in which Redis may lose what it had taken."""
CAREFUL = pytest.mark.parametrize(
    "options",
    [{}, {"min-replicas-to-write": 1, "min-replicas-max-lag": 1}],
    ids=["as it is", "min-replicas-to-write"],
)


@CAREFUL
@pytest.mark.server("redis_sentinel")
def test_an_idle_guard_does_not_go_back_to_a_primary_that_came_back(own_redis_sentinel, options):
    """It comes up as a primary and takes writes, until the Sentinels notice."""
    group = own_redis_sentinel(options=options, **CALM)
    with Once(group.url, namespace="payments", on_abandoned="hold") as idle:
        idle.run("warm", int)
        old = group.master_port()
        group.master.kill()
        group.wait_failover(old)
        group.master.start()
        assert paid_by_both(group, idle, 5) == 0


@CAREFUL
@pytest.mark.server("redis_sentinel")
def test_a_guard_leaves_a_primary_that_is_replaced_as_planned(own_redis_sentinel, options):
    """The old one goes on taking writes for seconds after the Sentinels name the new one, and nobody hangs up."""
    group = own_redis_sentinel(options=options, **CALM)
    with Once(group.url, namespace="payments", on_abandoned="hold") as once:
        once.run("warm", int)
        old = group.master_port()
        with group.sentinels[0].connect() as sentinel:
            sentinel.call("SENTINEL", "FAILOVER", "mymaster")
        group.wait_failover(old)
        time.sleep(1)  # for so long the Sentinels' last word is taken
        assert paid_by_both(group, once, 5) == 0
