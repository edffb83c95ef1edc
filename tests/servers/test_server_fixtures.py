"""The fixtures give what they promise."""

import psycopg
import pytest
import redis
from redis.cluster import RedisCluster
from redis.sentinel import Sentinel

from dupeproof_lab.servers import Given, keyspace
from dupeproof_lab.servers.postgres import run_sql


@pytest.mark.parametrize("_", range(2))
def test_each_test_finds_redis_empty(redis_url, _):
    with redis.Redis.from_url(redis_url) as client:
        assert client.dbsize() == 0
        client.set("left", "behind")
    assert keyspace.count(redis_url) == 1


@pytest.mark.parametrize("_", range(2))
def test_each_test_finds_the_cluster_empty(redis_cluster_url, _):
    host, port = redis_cluster_url.removeprefix("redis+cluster://").split(",")[0].split(":")
    with RedisCluster(host, int(port)) as client:
        assert sum(client.dbsize(target_nodes="primaries") for _ in "x") == 0
        for number in range(50):
            client.set(f"key-{number}", "left")
    assert keyspace.count(redis_cluster_url) == 50


@pytest.mark.parametrize("_", range(2))
def test_each_test_finds_the_sentinels_master_empty(redis_sentinel_url, _):
    places = redis_sentinel_url.removeprefix("redis+sentinel://").partition("/")[0].split(",")
    sentinel = Sentinel([tuple(place.split(":")) for place in places])
    with sentinel.master_for("mymaster") as client:
        assert client.dbsize() == 0
        client.set("left", "behind")
    assert keyspace.count(redis_sentinel_url) == 1
    for each in sentinel.sentinels:
        each.close()


@pytest.mark.parametrize("_", range(2))
def test_each_test_finds_a_database_of_its_own(postgres_url, _):
    with psycopg.connect(postgres_url) as connection:
        connection.execute("CREATE TABLE only_mine (id int)")


@pytest.mark.parametrize("_", range(2))
def test_the_tests_of_a_file_can_share_a_database(postgres_module_url, _):
    run_sql(postgres_module_url, "CREATE TABLE IF NOT EXISTS ours (id int)")
    assert run_sql(postgres_module_url, "SELECT count(*) FROM ours") == "0"


@pytest.mark.server("redis")
@pytest.mark.parametrize("fixture", ["redis_url"])
def test_a_server_chosen_at_run_time_is_declared_by_a_mark(request, fixture):
    assert keyspace.count(request.getfixturevalue(fixture)) == 0


@pytest.mark.parametrize("action", ["kill", "restart", "pause", "resume"])
def test_a_server_somebody_else_runs_is_left_alone(redis_server, action):
    given = Given("redis", redis_server.url)
    with given, pytest.raises(RuntimeError, match="REDIS_URL points at this server"):
        getattr(given, action)()
    assert given.version == redis_server.version
