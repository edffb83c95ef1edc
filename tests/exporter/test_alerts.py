"""The alerts, by Prometheus' own tool: on written series, and on what the exporter and the listener say of real faults."""

import sqlite3
import subprocess
import threading
from contextlib import ExitStack, closing
from pathlib import Path

import pytest
import yaml
from exporter_faults import Doubtful, doubtful, hold
from prometheus_client import CollectorRegistry, generate_latest
from prometheus_client.parser import text_string_to_metric_families

from dupeproof import Inbox, KeyReused, Once, Relay, StoreUnavailable
from dupeproof.core.events import Event, Kind
from dupeproof.errors import BrokerUnavailable, ClaimLost
from dupeproof.exporter import StoreCollector
from dupeproof.metrics.prometheus import PrometheusListener

OPS = Path(__file__).parents[2] / "ops"
ALERTS = [
    rule["alert"]
    for group in yaml.safe_load((OPS / "alerts.yaml").read_text())["groups"]
    for rule in group["rules"]
]
FIRED = 'count by (alertname) (count by (alertname) (max_over_time(ALERTS{alertstate="firing"}[%s])))'
"""At some time within so many minutes. A scrape a minute: five before the fault, and as many after it as are needed."""


def test_each_alert_fires_on_its_fault_and_is_silent_without(promtool):
    done = subprocess.run(
        [promtool, "test", "rules", OPS / "alerts.test.yaml"],
        capture_output=True,
        text=True,
        check=False,
        timeout=60,
    )
    assert done.returncode == 0, done.stdout + done.stderr
    tests = yaml.safe_load((OPS / "alerts.test.yaml").read_text())["tests"]
    expected = [
        sample["labels"]
        for test in tests
        for asked in test["promql_expr_test"]
        for sample in asked["exp_samples"]
    ]
    assert {f'{{alertname="{name}"}}' for name in ALERTS} == set(expected)
    assert [] in [asked["exp_samples"] for test in tests for asked in test["promql_expr_test"]]


def test_what_is_exported_is_what_prometheus_reads(promtool, tmp_path):
    registry = CollectorRegistry()
    listener = PrometheusListener(registry)
    for kind in Kind:
        listener(Event(kind=kind, namespace="n", name="claim", seconds=0.1, lag=0.1))
    url = f"sqlite:///{tmp_path}/dedup.db"
    with Once(url, on_error="hold") as once, closing(StoreCollector(url, registry=registry)):
        hold(once, "a")
        text = generate_latest(registry)
    done = subprocess.run(
        [promtool, "check", "metrics"], input=text, capture_output=True, check=False, timeout=60
    )
    assert done.returncode in (0, 3), done.stderr  # 3: it would choose other names


class Watched:
    """A process with a listener, beside an exporter; what Prometheus makes of both."""

    def __init__(self, promtool, folder):
        self._promtool, self._folder = promtool, folder
        self._registry = CollectorRegistry()
        self._urls = []
        self.listener = PrometheusListener(self._registry)

    def store(self, url):
        self._urls.append(url)

    def scraped(self):
        """As it is now: no reading of a moment ago."""
        exporter = CollectorRegistry()
        found = {}
        with ExitStack() as stack:
            for url in self._urls:
                stack.enter_context(closing(StoreCollector(url, registry=exporter)))
            texts = {
                "exporter": generate_latest(exporter).decode(),
                "shop": generate_latest(self._registry).decode(),
            }
        for job, text in texts.items():
            for family in text_string_to_metric_families(text):
                for sample in family.samples:
                    labels = ",".join(
                        f'{name}="{value}"' for name, value in {**sample.labels, "job": job}.items()
                    )
                    found[f"{sample.name}{{{labels}}}"] = sample.value
        return found

    def fires(self, before, after, *alerts):
        """With these scrapes before and after the fault, these alerts fire and no others; none did before it."""
        series = []
        for name in {**before, **after}:
            values = [before.get(name)] * 5 + [after.get(name)] * 12
            text = " ".join("_" if value is None else repr(value).replace("inf", "Inf") for value in values)
            series.append({"series": name, "values": text})
        samples = [{"labels": f'{{alertname="{alert}"}}', "value": 1} for alert in alerts]
        asked = [
            {"expr": FIRED % "5m", "eval_time": "4m", "exp_samples": []},
            {"expr": FIRED % "12m", "eval_time": "16m", "exp_samples": samples},
        ]
        file = self._folder / "alerts.test.yaml"
        test = {"interval": "1m", "input_series": series, "promql_expr_test": asked}
        file.write_text(
            yaml.safe_dump(
                {"rule_files": [str(OPS / "alerts.yaml")], "evaluation_interval": "1m", "tests": [test]}
            )
        )
        done = subprocess.run(
            [self._promtool, "test", "rules", file], capture_output=True, text=True, check=False, timeout=60
        )
        assert done.returncode == 0, done.stdout + done.stderr


@pytest.fixture
def watched(promtool, tmp_path):
    return Watched(promtool, tmp_path)


@pytest.mark.parametrize("kind", [pytest.param("postgres", marks=pytest.mark.server("postgres")), "sqlite"])
def test_a_held_key_calls_somebody(watched, kind, request, tmp_path):
    url = request.getfixturevalue("postgres_url") if kind == "postgres" else f"sqlite:///{tmp_path}/dedup.db"
    watched.store(url)
    with Once(url, namespace="billing", hold_on=Doubtful, events=[watched.listener]) as once:
        once.run("fine", int)
        before = watched.scraped()
        hold(once, "a")
    watched.fires(before, watched.scraped(), "DupeproofKeysHeld", "DupeproofCallsMetHeldKeys")


def test_a_dead_key_calls_somebody(watched, tmp_path):
    url = f"sqlite:///{tmp_path}/dedup.db"
    watched.store(url)
    with Once(url, max_attempts=1, events=[watched.listener]) as once:
        before = watched.scraped()
        with pytest.raises(Doubtful):
            once.run("a", doubtful)
    watched.fires(before, watched.scraped(), "DupeproofKeysDead", "DupeproofAttemptsUsedUp")


def test_what_goes_wrong_in_a_process_calls_somebody(watched, tmp_path):
    url = f"sqlite:///{tmp_path}/dedup.db"
    watched.store(url)
    with Once(url, events=[watched.listener]) as once:
        before = watched.scraped()
        once.run("a", lambda n: n, 1)
        with pytest.raises(KeyReused):
            once.run("a", lambda n: n, 2)
        with pytest.raises(ClaimLost):
            once.run("b", lambda: once.forget("b"))
    watched.fires(before, watched.scraped(), "DupeproofKeysReused", "DupeproofClaimsLost")


def test_a_store_that_is_gone_calls_somebody(watched):
    url = "redis://127.0.0.1:1/0?timeout=200ms"
    with Once(url, events=[watched.listener]) as once:
        before = watched.scraped() | {
            'dupeproof_store_up{store="redis://127.0.0.1:1/0?…",job="exporter"}': 1.0
        }
        with pytest.raises(StoreUnavailable):
            once.run("a", int)
    watched.store(url)
    watched.fires(before, watched.scraped(), "DupeproofStoreDown", "DupeproofStoreNotReadable")


def test_a_relay_that_is_not_there_calls_somebody_until_it_is(watched, shop):
    url, add = shop
    add(1)
    watched.store(url)
    before = watched.scraped()
    add(1, created_at=1)
    after = watched.scraped()
    watched.fires(before, after, "DupeproofOutboxWaits", "DupeproofRelayNotRunning")
    with Relay(url, publisher=lambda message: None) as relay:
        relay.run_once()
    watched.fires(before, watched.scraped())


def test_a_dead_message_calls_somebody(watched, shop):
    url, add = shop
    add(1)
    watched.store(url)

    def refuse(message):
        nonlocal before
        before = watched.scraped()  # the counter of its topic is there before it fails
        raise ValueError

    before = {}
    with Relay(url, publisher=refuse, max_attempts=1, events=[watched.listener]) as relay:
        relay.run_once()
    watched.fires(before, watched.scraped(), "DupeproofOutboxDead", "DupeproofAttemptsUsedUp")


def test_a_broker_that_is_gone_calls_somebody(watched, shop):
    url, add = shop
    add(1)
    watched.store(url)
    tried = threading.Event()

    def listener(event):
        watched.listener(event)
        if event.kind is Kind.PUBLISHER_DOWN:
            tried.set()

    class Gone:
        def publish(self, messages):
            raise BrokerUnavailable("gone")

        def close(self):
            pass

    relay = Relay(url, publisher=Gone(), events=[watched.listener, listener])
    before = watched.scraped()
    running = threading.Thread(target=relay.run)
    running.start()
    try:
        assert tried.wait(20)
    finally:
        relay.stop()
        running.join(20)
    watched.fires(before, watched.scraped(), "DupeproofPublisherDown")


def test_a_late_duplicate_calls_somebody(watched, shop, tmp_path):
    url, add = shop
    add(1)
    watched.store(url)
    inbox = Inbox("billing", events=[watched.listener])
    with closing(sqlite3.connect(tmp_path / "shop.db")) as connection:
        inbox.create_schema(connection)
        with connection:
            assert inbox.first(connection, "m")
        before = watched.scraped()
        with connection:
            connection.execute("UPDATE dupeproof_inbox SET expires_at = 1")
            assert inbox.first(connection, "m")
    watched.fires(before, watched.scraped(), "DupeproofLateDuplicates")


def test_slow_stores_late_purges_and_a_missing_exporter_call_somebody(watched):
    """What would take hours: the events are made up, the names and labels are not."""
    before = watched.scraped() | {'dupeproof_store_up{store="s",job="exporter"}': 1.0}
    watched.listener(Event(kind=Kind.PURGED, namespace="", count=1, seconds=0.1, lag=8_000))
    after = watched.scraped()
    watched.fires(before, after, "DupeproofPurgeBehind", "DupeproofNotWatched")
