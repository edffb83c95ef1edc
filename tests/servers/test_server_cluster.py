"""A cluster forms, serves every slot, and fails over to a replica; so does a master behind sentinels."""

from redis.cluster import RedisCluster

from dupeproof_lab.servers import keyspace


def test_the_replica_of_a_killed_master_takes_over(own_redis_cluster):
    cluster = own_redis_cluster(masters=3, replicas=1, node_timeout_ms=1000)
    first = [node.port for node in cluster.nodes[:3]]
    assert set(cluster.masters()) == set(first)
    cluster.nodes[0].kill()
    cluster.wait_ok()
    now = set(cluster.masters())
    assert first[0] not in now
    assert now >= set(first[1:])
    with RedisCluster("127.0.0.1", first[1]) as client:
        for number in range(100):
            client.set(f"key-{number}", number)
    assert keyspace.count(f"redis+cluster://127.0.0.1:{first[1]}") == 100
    cluster.nodes[0].start()
    cluster.wait_ok()
    assert set(cluster.masters()) == now


def test_sentinels_promote_the_replica_of_a_killed_master(own_redis_sentinel):
    group = own_redis_sentinel(sentinels=1)
    old = group.master_port()
    assert old == group.master.port
    group.master.kill()
    assert group.wait_failover(old) == group.replica.port
    keyspace.empty(group.url)
    with group.replica.connect() as resp:
        assert resp.call("SET", "key", "value") == "OK"
