"""Events as OpenTelemetry metrics, and replays whose span leads to the first run."""

import time
from collections.abc import Iterator
from typing import Any

from dupeproof.core.codecs import Codec, JsonCodec, origin_of, with_origin
from dupeproof.core.events import Event, Kind
from dupeproof.errors import ConfigError
from dupeproof.metrics.counters import LAGS, MOST, SECONDS, SIZES, Tallies

try:
    from opentelemetry import metrics, trace
    from opentelemetry.trace import Link, SpanContext, TraceFlags
except ModuleNotFoundError as exc:
    raise ConfigError(
        'dupeproof.metrics.otel needs the OpenTelemetry API; run: pip install "dupeproof[otel]"'
    ) from exc

_SCOPE = "dupeproof"
_VERSION = "00"


class OpenTelemetryListener:
    """Counts every event and times calls to stores, under the names `PrometheusListener` uses, with dots."""

    wants_store_calls = True

    def __init__(self, provider: metrics.MeterProvider | None = None, *, most_labels: int = MOST) -> None:
        meter = (provider or metrics.get_meter_provider()).get_meter(_SCOPE)
        self._tallies = Tallies(most_labels)
        self.count_of = self._tallies.count_of
        meter.create_observable_counter(
            "dupeproof.events", [self._observed], description="What happened to keys and messages."
        )
        self._seconds = meter.create_histogram(
            "dupeproof.store.duration", unit="s", explicit_bucket_boundaries_advisory=SECONDS
        )
        self._sizes = meter.create_histogram(
            "dupeproof.store.batch_size", unit="{key}", explicit_bucket_boundaries_advisory=SIZES
        )
        self._backlog = meter.create_gauge("dupeproof.outbox.backlog", unit="{message}")
        self._oldest = meter.create_gauge("dupeproof.outbox.oldest", unit="s")
        self._lag = meter.create_histogram(
            "dupeproof.outbox.lag", unit="s", explicit_bucket_boundaries_advisory=LAGS
        )
        self._consumer_lag = meter.create_gauge("dupeproof.consumer.lag", unit="{message}")
        self._purge = meter.create_gauge("dupeproof.purge.duration", unit="s")
        self._clean_since: float | None = None
        meter.create_observable_gauge(
            "dupeproof.purge.lag",
            [self._purge_lag],
            unit="s",
            description="Nothing that is still there has been expired for longer.",
        )

    def __call__(self, event: Event) -> None:
        seconds = event.seconds or 0.0
        match event.kind:
            case Kind.STORE_CALL:
                verb = {"verb": event.name}
                self._seconds.record(seconds, verb)
                self._sizes.record(event.count, verb)
                return
            case Kind.BACKLOG:
                self._backlog.set(event.count)
                self._oldest.set(seconds)
                return
            case Kind.LAG:
                self._consumer_lag.set(event.count, {"namespace": event.namespace, "name": event.name})
                return
            case Kind.SENT:
                self._lag.record(seconds)
            case Kind.PURGED:
                self._purge.set(seconds)
                if event.lag is not None:
                    self._clean_since = time.monotonic() - event.lag
        self._tallies.add(event)

    def _observed(self, _: metrics.CallbackOptions) -> Iterator[metrics.Observation]:
        for (kind, namespace, name), count in self._tallies.read().items():
            yield metrics.Observation(count, {"kind": kind, "namespace": namespace, "name": name})

    def _purge_lag(self, _: metrics.CallbackOptions) -> Iterator[metrics.Observation]:
        if self._clean_since is not None:
            yield metrics.Observation(time.monotonic() - self._clean_since)


class TracedCodec:
    """Keeps with each result which span stored it; a replay is a span of its own, linked to that one.

        once = Once("redis://…", codec=TracedCodec())

    A result is 56 bytes longer for it. Those without this codec read it too, and do not trace.
    """

    def __init__(self, codec: Codec | None = None, provider: trace.TracerProvider | None = None) -> None:
        self._codec: Codec = JsonCodec() if codec is None else codec
        self._tracer = (provider or trace.get_tracer_provider()).get_tracer(_SCOPE)

    @property
    def name(self) -> str:
        return self._codec.name

    def prepare(self, returns: Any) -> None:
        self._codec.prepare(returns)

    def encode(self, value: Any, returns: Any) -> bytes:
        data = self._codec.encode(value, returns)
        span = trace.get_current_span()
        context = span.get_span_context()
        if not context.is_valid:
            return data
        span.set_attribute("dupeproof.outcome", "ran")
        return with_origin(_written(context), data)

    def decode(self, data: bytes, returns: Any) -> Any:
        origin, data = origin_of(data)
        first = _read(origin)
        links = [] if first is None else [Link(first)]
        with self._tracer.start_as_current_span(
            "dupeproof replay", links=links, attributes={"dupeproof.outcome": "replayed"}
        ):
            return self._codec.decode(data, returns)


def _written(context: SpanContext) -> str:
    """As the traceparent header of W3C Trace Context says it."""
    return f"{_VERSION}-{context.trace_id:032x}-{context.span_id:016x}-{context.trace_flags:02x}"


def _read(origin: str) -> SpanContext | None:
    """None for what is no such header: it was stored by somebody else, and a replay does not depend on it."""
    parts = origin.split("-")
    if len(parts) != 4:
        return None
    try:
        trace_id, span_id, flags = (int(part, 16) for part in parts[1:])
    except ValueError:
        return None
    return SpanContext(trace_id, span_id, is_remote=True, trace_flags=TraceFlags(flags))
