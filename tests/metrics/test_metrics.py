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

from dupeproof import AsyncOnce, KeyReused, Once, Outbox, Relay
from dupeproof.cleanup import Purger
from dupeproof.core.events import Event, Kind
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


def test_opentelemetry_counts_the_same(tmp_path):
    reader = InMemoryMetricReader()
    listener = OpenTelemetryListener(MeterProvider([reader]))
    with Once(f"sqlite:///{tmp_path}/dedup.db", events=[listener]) as once:
        once.run("k", lambda: 1)
        once.run("k", lambda: 1)
    for kind in (Kind.BACKLOG, Kind.SENT, Kind.PURGED):
        listener(Event(kind=kind, namespace="outbox", count=2, seconds=0.5))
    [resource] = reader.get_metrics_data().resource_metrics
    found = {
        metric.name: metric.data.data_points for scope in resource.scope_metrics for metric in scope.metrics
    }
    counts = {point.attributes["kind"]: point.value for point in found["dupeproof.events"]}
    assert counts == {"won": 1, "finished": 1, "replayed": 1, "sent": 2, "purged": 2}
    assert {point.attributes["verb"] for point in found["dupeproof.store.duration"]} == {"claim", "finish"}
    assert found["dupeproof.outbox.backlog"][0].value == 2


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
