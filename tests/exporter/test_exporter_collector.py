"""What stores hold is read from them, at a bounded cost; nothing is shown of a store that does not answer."""

import os
import threading
import time

import pytest
from exporter_faults import Doubtful, doubtful, hold
from prometheus_client import CollectorRegistry, generate_latest

from dupeproof import ConfigError, Once, Outbox, Relay
from dupeproof.core.records import ClaimRequest, Finish, Terms
from dupeproof.exporter import StoreCollector
from dupeproof.metrics.prometheus import PrometheusListener
from dupeproof.stores import open_store
from support.proxy import Proxy


def test_keys_are_counted_by_namespace_and_state(durable_url, watch):
    with (
        Once(durable_url, namespace="billing", on_error="hold") as billing,
        Once(durable_url, namespace="mail", max_attempts=1) as mail,
        Once(durable_url, namespace="post") as post,
    ):
        hold(billing, "a", "b")
        for once, key in ((mail, "c"), (post, "d")):
            with pytest.raises(Doubtful):
                once.run(key, doubtful)
        billing.run("fine", int)
        began, ended = threading.Event(), threading.Event()

        def slow():
            began.set()
            assert ended.wait(20)

        running = [threading.Thread(target=once.run, args=("e", slow)) for once in (billing, post)]
        for each in running:
            each.start()
        assert began.wait(20)
        value = watch(durable_url)

        def keys(namespace, state):
            return value("keys", namespace=namespace, state=state)

        try:
            deadline = time.monotonic() + 20
            while (keys("billing", "running"), keys("post", "running")) != (1, 1):
                assert time.monotonic() < deadline
                time.sleep(0.02)
            found = [
                keys("billing", "held"),
                keys("mail", "dead"),
                keys("post", "failed"),
                keys("post", "held"),
            ]
            assert found == [2, 1, 1, 0]
            assert 0 <= value("oldest_seconds", namespace="billing", state="held") < 60
            assert (value("up"), value("sampled_ratio")) == (1, 1)
        finally:
            ended.set()
            for each in running:
                each.join()
        for entry in list(billing.entries("held")):
            billing.resolve(entry)
        while keys("billing", "held") != 0:
            assert time.monotonic() < deadline
            time.sleep(0.02)


def test_the_outbox_is_read_from_the_database(shop, watch):
    url, add = shop
    add(3, created_at=int(time.time() * 1_000) - 90_000)
    value = watch(url)
    assert (value("outbox_backlog"), value("outbox_relays"), value("outbox_dead")) == (3, 0, 0)
    assert 90 <= value("outbox_oldest_seconds") < 120
    assert value("outbox_relay_seen_seconds") == float("inf")

    def refuse(message):
        raise ValueError

    with Relay(url, publisher=refuse, max_attempts=1) as relay:
        relay.run_once()
    value = watch(url)
    assert (value("outbox_backlog"), value("outbox_dead"), value("outbox_oldest_seconds")) == (0, 3, 0)
    assert 0 <= value("outbox_relay_seen_seconds") < 60


@pytest.mark.server("postgres")
def test_the_outbox_of_postgres_is_read(postgres_url, watch):
    import psycopg

    with psycopg.connect(postgres_url) as connection:
        outbox = Outbox()
        outbox.create_schema(connection)
        outbox.add_many(connection, [{"topic": "t", "payload": each} for each in range(3)])
    value = watch(postgres_url)
    assert (value("outbox_backlog"), value("outbox_relay_seen_seconds")) == (3, float("inf"))
    with Relay(postgres_url, publisher=lambda message: None) as relay:
        relay.run_once()
    value = watch(postgres_url)
    assert value("outbox_backlog") == 0
    assert 0 <= value("outbox_relay_seen_seconds") < 60


@pytest.mark.server("mariadb")
def test_a_database_with_an_outbox_only_has_no_keys(mariadb_url, watch):
    import pymysql

    from dupeproof.stores.urls import parse_url

    parts = parse_url(mariadb_url).parts
    with pymysql.connect(
        host=parts.hostname,
        port=parts.port,
        user=parts.username,
        password=parts.password or "",
        database=parts.path[1:],
    ) as connection:
        outbox = Outbox()
        outbox.create_schema(connection)
        outbox.add(connection, topic="t", payload=1)
        connection.commit()
    value = watch(mariadb_url)
    assert [value(name) for name in ("up", "outbox_backlog", "sampled_ratio")] == [1, 1, None]


def test_a_store_that_is_down_shows_nothing_but_that(redis_url, watch):
    with Once(redis_url, on_error="hold", namespace="down") as once:
        hold(once, "a")
    proxy = Proxy(redis_url)
    try:
        value = watch(proxy.url, timeout="300ms")
        place = {"namespace": "down", "state": "held"}
        assert (value("up"), value("keys", **place)) == (1, 1)
        proxy.hold()
        deadline = time.monotonic() + 20
        while value("up") != 0:  # the last reading holds for a moment
            assert time.monotonic() < deadline
        began = time.monotonic()
        assert value("keys", **place) is None
        assert time.monotonic() - began < 2, "who asks must not hang with it"
        proxy.let_go()
    finally:
        proxy.close()


def test_a_store_is_not_read_more_often_than_wanted(shop, watch):
    url, add = shop
    add(1)
    value = watch(url, interval="1h")
    assert value("outbox_backlog") == 1
    add(1)
    assert value("outbox_backlog") == 1


def test_of_many_records_a_sample_tells_how_many_run(watch, tmp_path):
    url = f"sqlite:///{tmp_path}/many.db?synchronous=normal"
    terms = Terms("shop", lease=3_600_000, window=3_600_000)
    store = open_store(url)
    keys = [os.urandom(16) for _ in range(40_000)]
    token = bytes(8)
    store.claim([ClaimRequest(key, token, terms) for key in keys])
    store.finish([Finish(key, token, 3_600_000, b"", "json") for key in keys[: len(keys) // 2]])
    store.close()
    value = watch(url, timeout="20s")
    assert 0.2 < value("sampled_ratio") < 0.3
    assert value("keys", namespace="shop", state="running") == pytest.approx(20_000, rel=0.1)


def test_it_stands_beside_a_listener_in_one_registry(tmp_path):
    registry = CollectorRegistry()
    url = f"sqlite:///{tmp_path}/dedup.db"
    with Once(url, events=[PrometheusListener(registry)], on_error="hold") as once:
        hold(once, "a")
        collector = StoreCollector(url, registry=registry)
        text = generate_latest(registry).decode()
        collector.close()
    assert 'dupeproof_events_total{kind="on_hold",name="",namespace="default"} 1.0' in text
    assert 'state="held"' in text
    assert "dupeproof_outbox_backlog" not in text, "nobody here has asked how many wait"
    types = [line for line in text.splitlines() if line.startswith("# TYPE")]
    assert len(types) == len(set(types))


def test_what_cannot_be_collected_is_refused_before_anything_is_connected(tmp_path):
    registry = CollectorRegistry()
    url = f"sqlite:///{tmp_path}/dedup.db"
    for urls, text in (
        ([], "which stores"),
        (["nosuch://x"], "not a store URL"),
        ([f"{url}?synchronous=full", f"{url}?synchronous=normal"], "differ only in what is not shown"),
    ):
        with pytest.raises(ConfigError, match=text):
            StoreCollector(*urls, registry=registry)
    StoreCollector(url, registry=registry)
    with pytest.raises(ConfigError, match="one collector"):
        StoreCollector(url, registry=registry)
    assert not (tmp_path / "dedup.db").exists()


def test_a_forked_child_reads_for_itself(tmp_path, watch):
    url = f"sqlite:///{tmp_path}/dedup.db"
    with Once(url, namespace="shop", on_error="hold") as once:
        hold(once, "a")
    value = watch(url)
    assert value("keys", namespace="shop", state="held") == 1
    child = os.fork()
    if child == 0:
        os._exit(0 if value("keys", namespace="shop", state="held") == 1 else 1)
    assert os.waitpid(child, 0)[1] == 0
