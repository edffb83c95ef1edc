"""Events as Prometheus metrics."""

from collections.abc import Iterator
from typing import Any

from dupeproof.core.events import Event, Kind
from dupeproof.errors import ConfigError
from dupeproof.metrics.counting import MOST, Tallies

try:
    from prometheus_client import REGISTRY, CollectorRegistry, Gauge, Histogram
    from prometheus_client.core import CounterMetricFamily, Metric
    from prometheus_client.registry import Collector
except ModuleNotFoundError as exc:
    raise ConfigError(
        'dupeproof.metrics.prometheus needs prometheus-client; run: pip install "dupeproof[metrics]"'
    ) from exc

_SECONDS = (0.0005, 0.001, 0.0025, 0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1, 2.5, 5)
_SIZES = (1, 2, 4, 8, 16, 32, 64, 128, 256, 512, 1024)


class PrometheusListener(Collector):
    """Counts every event; times calls to stores; tells how much waits in an outbox, and how far behind a purge is.

    dupeproof_events_total{kind,namespace,name}   won, replayed, busy, mismatch, lost, held, dead, seen, fresh, …
    dupeproof_store_seconds{verb}                 how long a batch took
    dupeproof_store_batch_size{verb}              how many keys it had
    dupeproof_outbox_backlog, dupeproof_outbox_oldest_seconds, dupeproof_outbox_lag_seconds
    dupeproof_purge_seconds                       how long the last purge took

    One listener may serve any number of guards. Namespaces and names beyond the first `most_labels` count as "other".
    """

    wants_store_calls = True

    def __init__(
        self, registry: CollectorRegistry = REGISTRY, *, prefix: str = "dupeproof", most_labels: int = MOST
    ) -> None:
        self._tallies = Tallies(most_labels)
        self.counter = self._tallies.counter
        self._prefix = prefix
        given: dict[str, Any] = {"registry": registry}
        self._seconds = Histogram(
            f"{prefix}_store_seconds", "How long a batch took.", ["verb"], buckets=_SECONDS, **given
        )
        self._sizes = Histogram(
            f"{prefix}_store_batch_size", "Keys in a batch.", ["verb"], buckets=_SIZES, **given
        )
        self._backlog = Gauge(f"{prefix}_outbox_backlog", "Messages that wait to be published.", **given)
        self._oldest = Gauge(f"{prefix}_outbox_oldest_seconds", "How long the oldest has waited.", **given)
        self._lag = Histogram(
            f"{prefix}_outbox_lag_seconds", "From added to published, the longest of a batch.", **given
        )
        self._purge = Gauge(f"{prefix}_purge_seconds", "How long the last purge took.", **given)
        self._verbs: dict[str, tuple[Histogram, Histogram]] = {}
        registry.register(self)

    def __call__(self, event: Event) -> None:
        if event.kind is Kind.STORE_CALL:
            seconds, sizes = self._verbs.get(event.name) or self._verb(event.name)
            seconds.observe(event.seconds or 0.0)
            sizes.observe(event.count)
            return
        if event.kind is Kind.BACKLOG:
            self._backlog.set(event.count)
            self._oldest.set(event.seconds or 0.0)
            return
        self._tallies.add(event)
        if event.kind is Kind.SENT:
            self._lag.observe(event.seconds or 0.0)
        elif event.kind is Kind.PURGED:
            self._purge.set(event.seconds or 0.0)

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

    def describe(self) -> Iterator[Metric]:
        yield CounterMetricFamily(f"{self._prefix}_events", "What happened to keys and messages.")

    def _verb(self, verb: str) -> tuple[Histogram, Histogram]:
        pair = self._verbs[verb] = self._seconds.labels(verb), self._sizes.labels(verb)
        return pair
