"""Readings as metrics: read when somebody asks, not too often, and never shown when they are old."""

import math
import threading
import time
from collections.abc import Iterator

from dupeproof import defaults, forks
from dupeproof.core.durations import Duration, milliseconds
from dupeproof.core.events import logger
from dupeproof.errors import ConfigError, DupeproofError
from dupeproof.exporter.readings import STATES, Reading, StoreReader

try:
    from prometheus_client import REGISTRY, CollectorRegistry
    from prometheus_client.core import GaugeMetricFamily, Metric
    from prometheus_client.registry import Collector
except ModuleNotFoundError as exc:
    raise ConfigError('the exporter needs prometheus-client; run: pip install "dupeproof[metrics]"') from exc

_REST = 20
"""Times as long as a reading took: the store gives at most a twentieth of its time to it."""
_MOST_NAMESPACES = 200
_OTHER = "other"
_STORE = ("store",)
_KEYS = ("store", "namespace", "state")
_GAUGES = {
    "up": ("Whether the store could be read.", _STORE),
    "read_seconds": ("How long the last reading took.", _STORE),
    "keys": ("Keys in this state; held and dead ones are counted, the others may be estimated.", _KEYS),
    "oldest_seconds": ("For how long the oldest key has been held or dead.", _KEYS),
    "sampled_ratio": (
        "The part of all records from which running, abandoned and failed keys are estimated.",
        _STORE,
    ),
    "outbox_backlog": ("Messages that wait to be published.", _STORE),
    "outbox_oldest_seconds": ("For how long the oldest of them has waited.", _STORE),
    "outbox_delayed": ("Messages whose time has not come.", _STORE),
    "outbox_failing": ("Messages that failed and will be tried again.", _STORE),
    "outbox_dead": ("Messages with all attempts used up.", _STORE),
    "outbox_relays": ("Relays that have messages in their hands.", _STORE),
    "outbox_relay_seen_seconds": (
        "Since a relay had messages in its hands; infinite if none ever had.",
        _STORE,
    ),
}
"""By name, with a prefix before it: what they say, and their labels."""


class StoreCollector(Collector):
    """Gauges of what stores hold: `dupeproof_store_keys{store,namespace,state}`, `dupeproof_store_outbox_backlog{store}` …

        StoreCollector("postgresql://…", "redis://…")

    A store is read when the registry is, at most once in `interval` and for a twentieth of the time. If it does not answer
    within `timeout`, `dupeproof_store_up` is 0 and nothing else of it is shown.
    """

    def __init__(
        self,
        *urls: str,
        registry: CollectorRegistry | None = REGISTRY,
        interval: Duration = defaults.EXPORTER_INTERVAL,
        timeout: Duration = defaults.EXPORTER_TIMEOUT,
        prefix: str = "dupeproof",
    ) -> None:
        if not urls:
            raise ConfigError("which stores? Give their URLs")
        shortest = milliseconds(interval, name="interval") / 1_000
        self._patience = milliseconds(timeout, name="timeout") / 1_000
        self._prefix = f"{prefix}_store"
        self._looks = [_Look(StoreReader(url), shortest) for url in dict.fromkeys(urls)]
        names = [look.shown for look in self._looks]
        if len(set(names)) < len(names):
            raise ConfigError(f"two of these URLs differ only in what is not shown: {', '.join(names)}")
        if registry is not None:
            try:
                registry.register(self)
            except ValueError as exc:
                raise ConfigError(
                    f"this registry has {self._prefix}_up already; give all URLs to one collector, or choose another prefix"
                ) from exc

    def collect(self) -> Iterator[Metric]:
        """All stores are asked at once, and waited for together."""
        deadline = time.monotonic() + self._patience
        for look in self._looks:
            look.ask()
        families = {family.name: family for family in self.describe()}
        for look in self._looks:
            reading = look.answer(deadline)
            values = {("up", (look.shown,)): 1.0 if reading else 0.0} | (
                look.values(reading) if reading else {}
            )
            for (name, labels), value in values.items():
                families[f"{self._prefix}_{name}"].add_metric(labels, value)
        yield from (family for family in families.values() if family.samples)

    def describe(self) -> Iterator[GaugeMetricFamily]:
        for name, (text, labels) in _GAUGES.items():
            yield GaugeMetricFamily(f"{self._prefix}_{name}", text, labels=labels)

    def close(self) -> None:
        """Give up connections. Closing twice is fine."""
        for look in self._looks:
            look.close()


class _Look(forks.Locked):
    """The last reading of a store, and the thread that is making the next."""

    def __init__(self, reader: StoreReader, shortest: float) -> None:
        super().__init__()
        self.shown = reader.shown
        self._reader = reader
        self._shortest = shortest
        self._reading: Reading | None = None
        self._ask_again_at = 0.0
        self._under_way: threading.Event | None = None
        self._trouble = ""
        self._namespaces: set[str] = set()

    def after_fork(self) -> None:
        super().after_fork()
        self._under_way = None  # that thread is the parent's

    def ask(self) -> None:
        """Begin to read, unless the last reading is good or the next one is under way."""
        with self._lock:
            if self._under_way is not None or time.monotonic() < self._ask_again_at:
                return
            done = self._under_way = threading.Event()
        threading.Thread(target=self._read, args=(done,), name="dupeproof-exporter", daemon=True).start()

    def answer(self, deadline: float) -> Reading | None:
        """None when there is none in time: an old one would say that all is as it was."""
        with self._lock:
            done = self._under_way
        if done is not None and not done.wait(max(0.0, deadline - time.monotonic())):
            return None
        with self._lock:
            return self._reading

    def values(self, reading: Reading) -> dict[tuple[str, tuple[str, ...]], float]:
        store = (self.shown,)
        found: dict[tuple[str, tuple[str, ...]], float] = {("read_seconds", store): reading.seconds}
        if reading.keys is not None:
            found["sampled_ratio", store] = reading.share
            # Those that were there before are 0 now, and not absent.
            for namespace in self._namespaces or {""}:
                for state in STATES:
                    found["keys", (*store, namespace, state)] = 0.0
            for (namespace, state), number in reading.keys.items():
                place = ("keys", (*store, self._label(namespace), state))
                found[place] = found.get(place, 0.0) + number
            for (namespace, state), seconds in reading.oldest.items():
                place = ("oldest_seconds", (*store, self._label(namespace), state))
                found[place] = max(seconds, found.get(place, 0.0))
        if (outbox := reading.outbox) is not None:
            found |= {
                (f"outbox_{name}", store): float(value)
                for name, value in (
                    ("backlog", outbox.backlog),
                    ("oldest_seconds", outbox.oldest or 0.0),
                    ("delayed", outbox.delayed),
                    ("failing", outbox.failing),
                    ("dead", outbox.dead),
                    ("relays", outbox.relays),
                    ("relay_seen_seconds", math.inf if outbox.relay_seen is None else outbox.relay_seen),
                )
            }
        return found

    def close(self) -> None:
        self._reader.close()

    def _label(self, namespace: str) -> str:
        return namespace if namespace in self._namespaces else _OTHER

    def _read(self, done: threading.Event) -> None:
        began = time.monotonic()
        reading, trouble = None, ""
        try:
            reading = self._reader.read()
        except DupeproofError as exc:
            trouble = str(exc)
        except Exception as exc:
            trouble = type(exc).__name__
            logger.exception("%s could not be read, for a reason that is a fault of ours", self.shown)
        now = time.monotonic()
        with self._lock:
            if trouble and trouble != self._trouble:
                logger.warning("%s cannot be read: %s", self.shown, trouble)
            self._trouble = trouble
            self._reading = reading
            for namespace, _ in reading.keys or () if reading else ():
                if len(self._namespaces) < _MOST_NAMESPACES:
                    self._namespaces.add(namespace)
            rest = _REST * (now - began) if reading else 0.0
            self._ask_again_at = now + max(self._shortest, rest)
            self._under_way = None
        done.set()
