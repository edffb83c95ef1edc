"""Every event is countable, labels stay few, and a replay leads to the first run."""

import json
import logging

import pytest
from opentelemetry.sdk.metrics import MeterProvider
from opentelemetry.sdk.metrics.export import InMemoryMetricReader
from opentelemetry.sdk.trace import TracerProvider
from opentelemetry.sdk.trace.export import SimpleSpanProcessor
from opentelemetry.sdk.trace.export.in_memory_span_exporter import InMemorySpanExporter
from prometheus_client import CollectorRegistry

from dupeproof import AsyncOnce, ConfigError, Inbox, KeyReused, Once, Outbox, Relay
from dupeproof.cleanup import Purger
from dupeproof.core.codecs import with_origin
from dupeproof.core.events import OF_CLAIMS, Event, Kind
from dupeproof.metrics.logs import LogListener
from dupeproof.metrics.otel import OpenTelemetryListener, TracedCodec
from dupeproof.metrics.prometheus import PrometheusListener


@pytest.fixture
def registry():
    return CollectorRegistry()


def events(registry, kind, namespace="default", name=""):
    labels = {"kind": kind, "namespace": namespace, "name": name}
    return registry.get_sample_value("dupeproof_events_total", labels) or 0


def test_prometheus_counts_what_happens(registry, tmp_path):
    listener = PrometheusListener(registry)
    with Once(f"sqlite:///{tmp_path}/dedup.db", events=[listener]) as once:
        once.run("k", lambda: 1)
        once.run("k", lambda: 1)
        once.fresh(["a", "b", "a"])
        with pytest.raises(KeyReused):
            once.run("k", lambda n: n, 5)
    for kind, count in (
        ("won", 1),
        ("finished", 1),
        ("replayed", 1),
        ("mismatch", 1),
        ("fresh", 2),
        ("seen", 1),
    ):
        assert events(registry, kind) == count, kind
    assert registry.get_sample_value("dupeproof_store_seconds_count", {"verb": "claim"}) == 3
    assert registry.get_sample_value("dupeproof_store_batch_size_sum", {"verb": "mark"}) == 3
    assert 0 < registry.get_sample_value("dupeproof_store_seconds_sum", {"verb": "finish"}) < 5


def test_what_has_not_happened_is_counted_as_0_and_not_absent(registry, tmp_path):
    def at_0(namespace, name=""):
        return {
            sample.labels["kind"]
            for family in registry.collect()
            for sample in family.samples
            if sample.name == "dupeproof_events_total"
            and (sample.labels["namespace"], sample.labels["name"], sample.value) == (namespace, name, 0)
        }

    listener = PrometheusListener(registry)
    url = f"sqlite:///{tmp_path}/shop.db"
    once = Once(url, namespace="shop", events=[listener])
    once(key="n", name="charge")(lambda n: n)
    Inbox("billing", events=[listener])
    Relay(url, publisher=print, events=[listener])
    Purger(url, events=[listener])
    assert at_0("shop", "charge") == set(OF_CLAIMS)
    assert at_0("shop") == {*OF_CLAIMS, "seen", "fresh", "purged"}
    assert at_0("billing") == {"seen", "fresh", "late", "stale"}
    assert at_0("outbox") == {"sent", "sent_again", "publisher_down", "store_down"}
    assert at_0("") == {"purged", "store_down"}
    assert not (tmp_path / "shop.db").exists(), "counting connects to nothing"


def test_a_process_that_knows_of_no_backlog_shows_none(registry):
    listener = PrometheusListener(registry)
    assert not [
        family.name for family in registry.collect() if "backlog" in family.name or "oldest" in family.name
    ]
    assert registry.get_sample_value("dupeproof_purge_seconds") is None
    listener(Event(kind=Kind.BACKLOG, namespace="outbox", count=0))
    assert registry.get_sample_value("dupeproof_outbox_backlog") == 0


async def test_tasks_are_counted_in_the_batches_they_leave_in(registry, tmp_path):
    import asyncio

    async with AsyncOnce(f"sqlite:///{tmp_path}/dedup.db", events=[PrometheusListener(registry)]) as once:
        await asyncio.gather(*(once.seen(f"k{n}") for n in range(64)))
    assert registry.get_sample_value("dupeproof_store_batch_size_sum", {"verb": "mark"}) == 64
    assert registry.get_sample_value("dupeproof_store_batch_size_count", {"verb": "mark"}) < 20


def test_the_outbox_and_the_purge_are_measured(registry, tmp_path):
    import sqlite3

    listener = PrometheusListener(registry)
    url = f"sqlite:///{tmp_path}/shop.db"
    with sqlite3.connect(tmp_path / "shop.db") as connection:
        outbox = Outbox()
        outbox.create_schema(connection)
        outbox.add_many(connection, [{"topic": "t", "payload": n} for n in range(5)])
    connection.close()
    with Relay(url, publisher=lambda message: None, events=[listener]) as relay:
        relay.run_once()
    with Purger(url, events=[listener]) as purger:
        purger.run_once()
    assert events(registry, "sent", "outbox") == 5
    assert registry.get_sample_value("dupeproof_outbox_lag_seconds_count") >= 1
    assert registry.get_sample_value("dupeproof_purge_seconds") > 0
    assert purger.last.complete
    first = registry.get_sample_value("dupeproof_purge_lag_seconds")
    assert registry.get_sample_value("dupeproof_purge_lag_seconds") > first >= purger.last.seconds
    listener(Event(kind=Kind.BACKLOG, namespace="outbox", count=7, seconds=3.5))
    assert registry.get_sample_value("dupeproof_outbox_backlog") == 7
    assert registry.get_sample_value("dupeproof_outbox_oldest_seconds") == 3.5


def test_labels_stay_few(registry):
    listener = PrometheusListener(registry, most_labels=3)
    for number in range(1_000):
        listener(Event(kind=Kind.WON, namespace=f"customer-{number}"))
    found = [
        sample
        for family in registry.collect()
        for sample in family.samples
        if sample.name == "dupeproof_events_total"
    ]
    assert len(found) == 4
    assert events(registry, "won", "other", "other") == 997


def test_a_listener_that_breaks_breaks_no_call(tmp_path, caplog):
    def broken(event):
        raise RuntimeError

    broken.wants_store_calls = True
    with Once(f"sqlite:///{tmp_path}/dedup.db", events=[broken]) as once:
        assert once.run("k", lambda: 5) == 5
        assert once.run("k", lambda: 6) == 5
    assert "listener failed" in caplog.text


class Broken:
    """Calls things what our own listeners call them, and fails at all of them."""

    wants_store_calls = True

    def __init__(self, count_of):
        self.count_of = count_of

    def __call__(self, event):
        raise RuntimeError


def _raising(*_):
    raise RuntimeError


@pytest.mark.parametrize("count_of", [_raising, lambda *_: None, lambda *_: _raising, lambda *_: iter(()), 5])
@pytest.mark.parametrize("url", ["memory://", "sqlite:///{}/dedup.db"])
def test_a_listener_that_cannot_count_breaks_no_call(tmp_path, count_of, url, registry):
    listener = PrometheusListener(registry)
    with Once(url.format(tmp_path), events=[Broken(count_of), listener]) as once:
        assert once.run("k", lambda: 5) == 5
        assert once.run("k", lambda: 6) == 5
        assert (once.seen("m"), once.seen("m")) == (False, True)
        assert once.fresh(["n", "m"]) == ["n"]
    assert [events(registry, kind) for kind in ("won", "replayed", "seen", "fresh")] == [1, 1, 2, 2]


async def _task(event):
    """Nobody would await it."""


class _Task:
    async def __call__(self, event):
        """Nobody would await it."""


@pytest.mark.parametrize(
    "events",
    [print, [5], [_task], [_Task()]],
    ids=["a function", "a number", "a coroutine function", "its like"],
)
def test_what_cannot_be_a_listener_is_refused_before_the_first_event(events, tmp_path):
    url = f"sqlite:///{tmp_path}/dedup.db"
    for make in (
        lambda: Once("memory://", events=events),
        lambda: AsyncOnce("memory://", events=events),
        lambda: Inbox("g", events=events),
        lambda: Purger(url, events=events),
        lambda: Relay(url, publisher=print, events=events),
    ):
        with pytest.raises(ConfigError, match="listener"):
            make()


def test_two_listeners_for_one_registry_are_refused(registry):
    PrometheusListener(registry)
    with pytest.raises(ConfigError, match="same listener"):
        PrometheusListener(registry)
    PrometheusListener(registry, prefix="other")


def test_log_lines_can_be_read_by_programs(caplog):
    caplog.set_level(logging.INFO)
    with Once("memory://", namespace="billing", events=[LogListener()]) as once:
        once.seen("secret-key")
        once.seen("secret-key")
    lines = [json.loads(record.getMessage()) for record in caplog.records]
    assert [line["event"] for line in lines] == ["fresh", "seen"]
    assert lines[0]["namespace"] == "billing"
    assert caplog.records[0].dupeproof == lines[0]
    assert "secret" not in caplog.text
    LogListener()(Event(kind=Kind.DEAD, namespace="billing", attempt=3))
    assert caplog.records[-1].levelno == logging.ERROR
    LogListener()(Event(kind=Kind.ON_HOLD, namespace="billing"))
    assert caplog.records[-1].levelno == logging.WARNING


def test_opentelemetry_counts_the_same(tmp_path):
    reader = InMemoryMetricReader()
    listener = OpenTelemetryListener(MeterProvider([reader]))
    with Once(f"sqlite:///{tmp_path}/dedup.db", events=[listener]) as once:
        once.run("k", lambda: 1)
        once.run("k", lambda: 1)
    for kind in (Kind.BACKLOG, Kind.SENT, Kind.PURGED):
        listener(Event(kind=kind, namespace="outbox", count=2, seconds=0.5, lag=7))
    [resource] = reader.get_metrics_data().resource_metrics
    found = {
        metric.name: metric.data.data_points for scope in resource.scope_metrics for metric in scope.metrics
    }
    counts = {point.attributes["kind"]: point.value for point in found["dupeproof.events"]}
    happened = {kind: count for kind, count in counts.items() if count}
    assert happened == {"won": 1, "finished": 1, "replayed": 1, "sent": 2, "purged": 2}
    assert counts["on_hold"] == counts["dead"] == 0
    assert {point.attributes["verb"] for point in found["dupeproof.store.duration"]} == {"claim", "finish"}
    assert found["dupeproof.outbox.backlog"][0].value == 2
    assert found["dupeproof.purge.lag"][0].value >= 7
    [claim] = [point for point in found["dupeproof.store.duration"] if point.attributes["verb"] == "claim"]
    assert claim.explicit_bounds[0] < 0.001, "buckets of five seconds tell nothing of a store"


def test_the_span_of_a_replay_leads_to_the_first_run(any_url):
    spans = InMemorySpanExporter()
    provider = TracerProvider()
    provider.add_span_processor(SimpleSpanProcessor(spans))
    tracer = provider.get_tracer("shop")
    with Once(any_url, codec=TracedCodec(provider=provider)) as once:
        with tracer.start_as_current_span("first"):
            assert once.run("k", lambda: {"a": [1, None]}) == {"a": [1, None]}
        with tracer.start_as_current_span("second"):
            assert once.run("k", lambda: 0) == {"a": [1, None]}
        assert once.run("untraced", lambda: 5) == 5
        assert once.run("untraced", lambda: 6) == 5
        with Once(any_url) if "memory" not in any_url else once as plain:
            assert plain.run("k", lambda: 0) == {"a": [1, None]}
    named = {span.name: span for span in spans.get_finished_spans()[:3]}
    first, replay = named["first"], named["dupeproof replay"]
    [link] = replay.links
    assert link.context.span_id == first.context.span_id
    assert link.context.trace_id == first.context.trace_id
    assert replay.parent.span_id == named["second"].context.span_id
    assert first.attributes["dupeproof.outcome"] == "ran"


def test_a_consumer_counts_late_duplicates_by_group(registry, tmp_path):
    import sqlite3
    import threading

    from dupeproof.brokers import memory
    from dupeproof.brokers.memory.broker import Entry

    url, database = "memory://late", f"sqlite:///{tmp_path}/shop.db"
    with sqlite3.connect(tmp_path / "shop.db") as connection:
        Inbox("billing").create_schema(connection)
    connection.close()
    done = threading.Semaphore(0)
    inbox = Inbox("billing", window="1h", database=database)
    consumer = memory.consumer(
        url,
        "orders",
        lambda message, connection: done.release(),
        inbox=inbox,
        events=[PrometheusListener(registry)],
    )
    broker = memory.broker_of(url)
    broker.declare("orders")
    running = threading.Thread(target=consumer.run)
    running.start()
    try:
        for _ in range(2):
            broker.put("orders", Entry("m", b"", {}, None, "orders"))
            assert done.acquire(timeout=20)
            with sqlite3.connect(tmp_path / "shop.db") as other:
                while not other.execute("UPDATE dupeproof_inbox SET expires_at = 1").rowcount:
                    other.rollback()
            other.close()
    finally:
        consumer.stop()
        running.join(20)
    found = [events(registry, kind, "billing", "orders") for kind in ("fresh", "late", "seen")]
    assert (found, consumer.tally.late) == ([2, 1, 0], 1)


@pytest.mark.parametrize("origin", ["00-zz-1-01", "a-b-c", "00-" + "0" * 32 + "-" + "0" * 16 + "-00"])
def test_a_span_that_cannot_be_read_breaks_no_replay(origin):
    codec = TracedCodec()
    data = codec.encode({"a": 1}, dict)
    assert codec.decode(with_origin(origin, data), dict) == {"a": 1}
