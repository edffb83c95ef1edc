"""Events as Prometheus metrics."""

import math
import time
from collections.abc import Iterator
from typing import Any

from dupeproof.core.events import Event, Kind
from dupeproof.errors import ConfigError
from dupeproof.metrics.counters import LAGS, MOST, SECONDS, SIZES, Tallies

try:
    from prometheus_client import REGISTRY, CollectorRegistry, Gauge, Histogram
    from prometheus_client.core import CounterMetricFamily, GaugeMetricFamily, Metric
    from prometheus_client.registry import Collector
except ModuleNotFoundError as exc:
    raise ConfigError(
        'dupeproof.metrics.prometheus needs prometheus-client; run: pip install "dupeproof[metrics]"'
    ) from exc

_BACKLOG_GOOD_FOR = 300.0
"""Seconds. A relay reports it every ten, less often where it takes long; one that has ended or lost its database does not."""
_GAUGES = {
    "outbox_backlog": ("Messages that wait to be published.", _BACKLOG_GOOD_FOR),
    "outbox_oldest_seconds": ("How long the oldest has waited.", _BACKLOG_GOOD_FOR),
    "purge_seconds": ("How long the last purge took.", math.inf),
}
"""What they say, and for how long a report of it holds."""
_PURGE_LAG = "Nothing that is still there has been expired for longer."


class PrometheusListener(Collector):
    """Counts every event, times calls to stores, and reports the backlog of an outbox and the lag of a purge.

    dupeproof_events_total{kind,namespace,name}   won, replayed, busy, mismatch, lost, held, dead, seen, fresh, late, …
    dupeproof_store_seconds{verb}                 how long a batch took
    dupeproof_store_batch_size{verb}              how many keys it had
    dupeproof_outbox_backlog, dupeproof_outbox_oldest_seconds, dupeproof_outbox_lag_seconds
    dupeproof_consumer_lag{namespace,name}        messages that wait at the broker, by group and queue
    dupeproof_purge_seconds                       how long the last purge took
    dupeproof_purge_lag_seconds                   nothing that is still there has been expired for longer

    Counters are there from 0 on, for all that may happen to what the listener is given to. Gauges are shown where somebody has
    reported them: the backlog is not 0 in a process that knows of none.

    One listener serves any number of guards, consumers, relays and purgers. Namespaces and names beyond the first `most_labels` count as "other".
    """

    wants_store_calls = True

    def __init__(
        self, registry: CollectorRegistry = REGISTRY, *, prefix: str = "dupeproof", most_labels: int = MOST
    ) -> None:
        self._tallies = Tallies(most_labels)
        self.count_of = self._tallies.count_of
        self._prefix = prefix
        given: dict[str, Any] = {"registry": registry}
        try:
            self._seconds = Histogram(
                f"{prefix}_store_seconds", "How long a batch took.", ["verb"], buckets=SECONDS, **given
            )
        except ValueError as exc:
            raise ConfigError(
                f"this registry has {prefix}_store_seconds already; give the same listener to all, or choose another prefix"
            ) from exc
        self._sizes = Histogram(
            f"{prefix}_store_batch_size", "Keys in a batch.", ["verb"], buckets=SIZES, **given
        )
        self._lag = Histogram(
            f"{prefix}_outbox_lag_seconds",
            "From added to published, the longest of a batch.",
            buckets=LAGS,
            **given,
        )
        self._consumer_lag = Gauge(
            f"{prefix}_consumer_lag", "Messages that wait at the broker.", ["namespace", "name"], **given
        )
        self._verbs: dict[str, tuple[Histogram, Histogram]] = {}
        self._gauges: dict[str, tuple[float, float]] = {}
        """Values that somebody has reported, and when: what nobody knows of here is not shown at all."""
        self._clean_since: float | None = None
        registry.register(self)

    def __call__(self, event: Event) -> None:
        if event.kind is Kind.STORE_CALL:
            seconds, sizes = self._verbs.get(event.name) or self._verb(event.name)
            seconds.observe(event.seconds or 0.0)
            sizes.observe(event.count)
            return
        if event.kind is Kind.BACKLOG:
            self._set("outbox_backlog", event.count)
            self._set("outbox_oldest_seconds", event.seconds or 0.0)
            return
        if event.kind is Kind.LAG:
            self._consumer_lag.labels(event.namespace, event.name).set(event.count)
            return
        self._tallies.add(event)
        if event.kind is Kind.SENT:
            self._lag.observe(event.seconds or 0.0)
        elif event.kind is Kind.PURGED:
            self._set("purge_seconds", event.seconds or 0.0)
            if event.lag is not None:
                self._clean_since = time.monotonic() - event.lag

    def collect(self) -> Iterator[Metric]:
        """What was counted, when the registry is read."""
        counts = CounterMetricFamily(
            f"{self._prefix}_events",
            "What happened to keys and messages.",
            labels=["kind", "namespace", "name"],
        )
        for labels, count in sorted(self._tallies.read().items()):
            counts.add_metric(labels, count)
        yield counts
        now = time.monotonic()
        for name, (value, since) in list(self._gauges.items()):
            text, good_for = _GAUGES[name]
            if now - since <= good_for:
                yield GaugeMetricFamily(f"{self._prefix}_{name}", text, value)
        if (
            self._clean_since is not None
        ):  # counted on from there, so that a purge that does not come again shows
            lag = time.monotonic() - self._clean_since
            yield GaugeMetricFamily(f"{self._prefix}_purge_lag_seconds", _PURGE_LAG, lag)

    def describe(self) -> Iterator[Metric]:
        yield CounterMetricFamily(f"{self._prefix}_events", "What happened to keys and messages.")
        yield GaugeMetricFamily(f"{self._prefix}_purge_lag_seconds", _PURGE_LAG)
        for name, (text, _) in _GAUGES.items():
            yield GaugeMetricFamily(f"{self._prefix}_{name}", text)

    def _set(self, name: str, value: float) -> None:
        self._gauges[name] = value, time.monotonic()

    def _verb(self, verb: str) -> tuple[Histogram, Histogram]:
        pair = self._verbs[verb] = self._seconds.labels(verb), self._sizes.labels(verb)
        return pair
