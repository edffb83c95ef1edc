"""Redis Streams on Sentinel and on a Cluster: the contract of all brokers, and a primary that goes away."""

import pytest
from brokers_ledgers import PostgresLedger
from brokers_places import ClusterStreamPlace, SentinelStreamPlace, message, new_queue
from test_broker_contract import *  # noqa: F403 - the same tests, on other places

from dupeproof.brokers.redis_streams import AsyncRedisStreamPublisher, RedisStreamPublisher, consumer
from dupeproof.errors import ConfigError

TOPOLOGIES = {"redis_sentinel": SentinelStreamPlace, "redis_cluster": ClusterStreamPlace}


@pytest.fixture(
    params=[pytest.param(name, marks=pytest.mark.server(name, "postgres")) for name in TOPOLOGIES]
)
def place(request):
    return TOPOLOGIES[request.param](request.getfixturevalue(request.param).url)


@pytest.mark.timeout(120)
@pytest.mark.server("redis_sentinel", "postgres")
def test_consumer_and_publisher_follow_the_primary(
    own_redis_sentinel, postgres_module_url, run, until, is_async
):
    servers = own_redis_sentinel()
    place, queue = SentinelStreamPlace(servers.url), new_queue()
    ledger = PostgresLedger(postgres_module_url)
    ledger.empty()
    place.declare(queue)
    handler = ledger.write_async if is_async else ledger.write
    inbox = ledger.inbox(is_async=is_async, group=queue)
    running = run(place.consumer(queue, handler, inbox=inbox, backoff="100ms", max_backoff="500ms"))
    assert not any(place.publish(*(message(queue, f"a-{n}") for n in range(50)), is_async=is_async))
    until(lambda: running.tally.done == 50 or running.ended, lambda: (running.tally, running.error))
    old = servers.master_port()
    until(lambda: _replicated(servers, queue), lambda: "the replica does not follow")
    servers.master.kill()
    servers.wait_failover(old)
    assert not any(place.publish(*(message(queue, f"b-{n}") for n in range(50)), is_async=is_async))
    until(lambda: len(ledger.counts()) == 100 or running.ended, lambda: (running.tally, running.error))
    running.stop()
    assert set(ledger.counts().values()) == {1}


def _replicated(servers, queue) -> bool:
    import redis

    with redis.Redis(port=servers.replica.port) as replica:
        found = replica.xinfo_groups(queue)
        return replica.xlen(queue) == 50 and all(
            each["pending"] == 0 for each in found if each["name"] != b"declared"
        )


@pytest.mark.parametrize(
    ("url", "text"),
    [
        ("redis+sentinel://127.0.0.1:26379", "name of the primary"),
        ("redis+cluster://127.0.0.1:6379/3", "only database 0"),
        ("redis+other://127.0.0.1:6379", "is not where a stream can be"),
        ("redis+cluster://127.0.0.1:6379?nonsense=1", "no option 'nonsense'"),
    ],
)
def test_addresses_that_cannot_be_are_refused_when_the_consumer_is_made(url, text):
    from dupeproof import Once

    with pytest.raises(ConfigError, match=text):
        consumer(url, "orders", print, once=Once("memory://"))
    for kind in (RedisStreamPublisher, AsyncRedisStreamPublisher):
        with pytest.raises(ConfigError, match=text):
            kind(url)
