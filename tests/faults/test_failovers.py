"""Masters killed and servers restarted under load: no wrong answer, and a durable store forgets nothing.

Redis copies to its replicas after it has answered, so a fail-over may lose the last writes of the killed master. What
a client can still rely on there, and what is asserted: whatever a call returned was made by a run of that very key;
the only errors are the three that say "ask again"; and all calls work again afterwards without a new client. A key
whose writes were lost may run again; only keys of a killed master, of its last moments, can be among those.
Where nothing is lost (PostgreSQL, a Redis that syncs every write) every key that was reported done ran once and is
replayed with the same value after the restart.
"""

import pytest

from dupeproof import Once
from support.load import Load


def assert_sane(load):
    assert load.unexpected == []
    assert load.wrong_answers() == []
    assert len(load.answers) > 200


def test_the_fail_over_of_a_cluster_under_load_gives_no_wrong_answer(own_redis_cluster):
    cluster = own_redis_cluster(masters=3, replicas=1, node_timeout_ms=1000)
    load = Load(cluster.url)
    with load.running():
        cluster.nodes[0].kill()
        cluster.wait_ok()
        load.wait_for_more()
    assert_sane(load)
    repeated = load.repeated()
    assert len(repeated) <= 8, "at most the call each caller was in when the master died"


def test_the_fail_over_of_sentinels_under_load_gives_no_wrong_answer(own_redis_sentinel):
    group = own_redis_sentinel()
    old = group.master_port()
    load = Load(group.url)
    with load.running():
        group.master.kill()
        group.wait_failover(old)
        load.wait_for_more()
    assert_sane(load)
    assert len(load.repeated()) <= 8, "at most the call each caller was in when the master died"


@pytest.mark.parametrize("way", ["restart", "kill"])
@pytest.mark.parametrize(
    "name", [pytest.param(name, marks=pytest.mark.server(name)) for name in ("redis", "postgres")]
)
def test_a_durable_server_restarted_under_load_forgets_no_key_it_reported_done(request, name, way):
    server = request.getfixturevalue(f"own_{name}")(**({"appendonly": True} if name == "redis" else {}))
    load = Load(server.url)
    with load.running():
        if way == "kill":
            server.kill()
            server.start()
        else:
            server.restart()
        load.wait_for_more()
    assert_sane(load)
    assert load.repeated() == {}
    with Once(server.url) as once:
        for key, value in dict(load.answers).items():
            result = once.attempt(key, load.work, key)
            assert (result.value, result.replayed) == (value, True)
