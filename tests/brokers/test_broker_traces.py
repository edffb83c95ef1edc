"""W3C trace context through every broker: from the transaction that adds a message, by the relay, to its handler."""

import asyncio
import sqlite3

import pytest
from brokers_places import new_queue
from opentelemetry import trace
from opentelemetry.sdk.trace import TracerProvider
from opentelemetry.sdk.trace.export import SimpleSpanProcessor
from opentelemetry.sdk.trace.export.in_memory_span_exporter import InMemorySpanExporter

from dupeproof import AsyncOnce, AsyncRelay, Once, Outbox, Relay


@pytest.fixture
def spans():
    exporter = InMemorySpanExporter()
    provider = trace.get_tracer_provider()
    if not isinstance(provider, TracerProvider):
        provider = TracerProvider()
        trace.set_tracer_provider(provider)
    processor = SimpleSpanProcessor(exporter)
    provider.add_span_processor(processor)
    yield exporter
    processor.shutdown()


def relay_once(place, url, *, is_async):
    if not is_async:
        with place.publisher() as publisher, Relay(url, publisher=publisher) as relay:
            return relay.run_once()

    async def relay_as_task():
        async with (
            place.publisher(is_async=True) as publisher,
            AsyncRelay(url, publisher=publisher) as relay,
        ):
            return await relay.run_once()

    return asyncio.run(relay_as_task())


def test_the_handler_is_in_the_trace_of_who_added_the_message(
    spans, place, queue, is_async, run, until, tmp_path
):
    file, seen = tmp_path / "outbox.db", []
    state = trace.TraceState([("vendor", "blue")])
    parent = trace.SpanContext(
        trace_id=7, span_id=9, is_remote=True, trace_flags=trace.TraceFlags(1), trace_state=state
    )
    context = trace.set_span_in_context(trace.NonRecordingSpan(parent))
    with sqlite3.connect(file) as connection:
        Outbox().create_schema(connection)
        with trace.get_tracer("test").start_as_current_span("place order", context=context) as placed:
            Outbox().add(connection, topic=queue, payload={}, headers={"mine": "1"}, id="m-1")
    assert relay_once(place, f"sqlite:///{file}", is_async=is_async) == 1

    def handle(message):
        seen.append((message, trace.get_current_span().get_span_context()))

    async def handle_async(message):
        handle(message)

    once = (AsyncOnce if is_async else Once)("memory://", namespace=new_queue())
    running = run(place.consumer(queue, handle_async if is_async else handle, once=once))
    until(lambda: running.tally.done == 1 or running.ended, lambda: (running.tally, running.error))
    running.stop()
    [(received, context)] = seen
    origin = placed.get_span_context()
    assert (received.id, received.headers["mine"]) == ("m-1", "1")
    assert received.headers["traceparent"] == f"00-{origin.trace_id:032x}-{origin.span_id:016x}-01"
    assert received.headers["tracestate"] == "vendor=blue"
    assert (context.trace_id, context.trace_state) == (origin.trace_id, state)
    [span] = [each for each in spans.get_finished_spans() if each.name == f"process {queue}"]
    assert (span.context.span_id, span.parent.span_id) == (context.span_id, origin.span_id)
    assert span.kind.name == "CONSUMER"


def test_without_a_span_nothing_is_added(tmp_path):
    file = tmp_path / "outbox.db"
    with sqlite3.connect(file) as connection:
        Outbox().create_schema(connection)
        Outbox().add(connection, topic="orders", payload={})
        [(headers,)] = connection.execute("SELECT headers FROM dupeproof_outbox")
    assert headers is None
