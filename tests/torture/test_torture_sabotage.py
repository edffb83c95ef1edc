"""Torture catches a library that breaks its promise. Each sabotage meets the run that the library itself passes.

Most of those that need a broker take minutes: `make sabotage` has them too.
"""

import pytest
from torture_runs import FREEZES, RUNS, caught


@pytest.mark.timeout(300)
@pytest.mark.parametrize(
    ("name", "wrong"),
    [("acknowledge_before_the_commit", "lost"), ("mark_apart", "lost"), ("skip_the_check", "doubled")],
)
def test_a_sabotaged_library_is_caught(torture, monkeypatch, name, wrong):
    caught(torture, monkeypatch, "memory", name, wrong)


@pytest.mark.timeout(300)
@pytest.mark.server("kafka", "postgres")
def test_a_fence_of_kafka_that_is_removed_is_caught(torture, monkeypatch, kafka_server, postgres_url):
    run = (*FREEZES, "--url", kafka_server.url, "--database", postgres_url)
    caught(torture, monkeypatch, "kafka", "remove_the_fence", "doubled", run)


@pytest.mark.timeout(300)
@pytest.mark.parametrize(
    "broker",
    [
        "memory",
        *(
            pytest.param(broker, marks=pytest.mark.server(broker, "postgres"))
            for broker in ("rabbitmq", "kafka", "redis", "nats")
        ),
    ],
)
def test_the_library_passes_the_same_runs_and_every_fault_strikes(torture, broker):
    code, found = torture("--broker", broker, *RUNS[broker])
    assert (code, found["exact"], found["missed"]) == (0, True, [])
    assert (found["lost"], found["doubled"]) == (0, 0)
    assert found["out_of_order"] == (None if broker in ("redis", "nats") else 0)
    assert found["failed"] > 0
    kinds = {"kill", "freeze", "kill_relay"}
    if broker != "memory":
        kinds |= {"outlive", "restart_broker", "restart_database"}
    assert found["struck"].keys() == kinds
    assert all(each["struck"] == each["inflicted"] for each in found["struck"].values())
