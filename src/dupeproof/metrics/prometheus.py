"""Events as Prometheus metrics."""

from typing import Any

from dupeproof.core.events import Event, Kind
from dupeproof.errors import ConfigError
from dupeproof.metrics.labels import MOST, FewLabels

try:
    from prometheus_client import REGISTRY, CollectorRegistry, Counter, Gauge, Histogram
except ModuleNotFoundError as exc:
    raise ConfigError(
        'dupeproof.metrics.prometheus needs prometheus-client; run: pip install "dupeproof[metrics]"'
    ) from exc

_SECONDS = (0.0005, 0.001, 0.0025, 0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1, 2.5, 5)
_SIZES = (1, 2, 4, 8, 16, 32, 64, 128, 256, 512, 1024)


class PrometheusListener:
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
        self._labels = FewLabels(most_labels)
        given: dict[str, Any] = {"registry": registry}
        self._events = Counter(
            f"{prefix}_events", "What happened to keys and messages.", ["kind", "namespace", "name"], **given
        )
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
        self._children: dict[tuple[str, str, str], Counter] = {}
        self._verbs: dict[str, tuple[Histogram, Histogram]] = {}

    def __call__(self, event: Event) -> None:
        kind = event.kind
        if kind is Kind.STORE_CALL:
            seconds, sizes = self._verbs.get(event.name) or self._verb(event.name)
            seconds.observe(event.seconds or 0.0)
            sizes.observe(event.count)
            return
        child = self._children.get((kind, event.namespace, event.name))
        if child is None:
            child = self._child(event)
        child.inc(event.count if kind is not Kind.BACKLOG else 1)
        if event.seconds is not None or kind is Kind.BACKLOG:
            self._measure(event)

    def _child(self, event: Event) -> Counter:
        namespace, name = self._labels(event.namespace, event.name)
        child = self._events.labels(event.kind, namespace, name)
        if (namespace, name) == (event.namespace, event.name):
            self._children[event.kind, namespace, name] = child
        return child

    def _verb(self, verb: str) -> tuple[Histogram, Histogram]:
        pair = self._verbs[verb] = self._seconds.labels(verb), self._sizes.labels(verb)
        return pair

    def _measure(self, event: Event) -> None:
        match event.kind:
            case Kind.BACKLOG:
                self._backlog.set(event.count)
                self._oldest.set(event.seconds or 0.0)
            case Kind.SENT:
                self._lag.observe(event.seconds or 0.0)
            case Kind.PURGED:
                self._purge.set(event.seconds or 0.0)
