"""What is read from one store: keys by namespace and state, and the status of its outbox. Bounded, whatever the store holds."""

import time
from collections import Counter
from collections.abc import Iterable

from msgspec import Struct

from dupeproof.core.protocols import Listable, Store, ability
from dupeproof.core.records import NEVER, Listed
from dupeproof.core.states import State
from dupeproof.errors import ConfigError
from dupeproof.outbox.reports import OutboxStatus
from dupeproof.outbox.sources import POSTGRES, STEPWISE, Source, open_source
from dupeproof.sql.database_option import is_mysql
from dupeproof.stores.factory import durable_url, open_store
from dupeproof.stores.urls import redact

MOST_WAITING = 100_000
"""Held and dead keys that are counted; of more, the oldest."""
SAMPLE = 10_000
"""Records, or keys of a Redis, from which the states without an index are estimated."""
COUNTED = (State.HELD, State.DEAD)
"""By an index, and so with the time since when."""
STATES = (*COUNTED, State.RUNNING, State.ABANDONED, State.FAILED)
Place = tuple[str, State]
"""Namespace and state."""


class Reading(Struct, frozen=True, kw_only=True):
    keys: Counter[Place] | None
    """None where there are none: a database with an outbox only."""
    oldest: dict[Place, float]
    """Seconds for which the oldest of those that are counted has been in its state."""
    share: float
    """Of all records, those that were looked at; the states that have no index are estimated from them."""
    outbox: OutboxStatus | None
    seconds: float
    """How long it took."""


class StoreReader:
    """One store, by its URL. Made without a connection; a wrong URL or a driver that is missing is an error here."""

    def __init__(self, url: str) -> None:
        self.shown = redact(url)
        durable = durable_url(url)
        self._store: Store | None = None if is_mysql(durable) else open_store(durable)
        self._listable: Listable | None = None
        if self._store is not None:
            self._listable = ability(self._store, Listable)  # type: ignore[type-abstract]
            if self._listable is None:
                raise ConfigError(f"{self.shown}: {type(self._store).__name__} cannot list its records")
        has_outbox = durable.partition("://")[0] in (*POSTGRES, *STEPWISE)
        self._source: Source | None = open_source(durable) if has_outbox else None

    def read(self) -> Reading:
        """Raises `StoreUnavailable` when the store does not answer in time."""
        began = time.monotonic()
        keys: Counter[Place] | None = None
        oldest: dict[Place, float] = {}
        share = 1.0
        if self._listable is not None:
            keys, oldest = counted(self._listable.waiting(MOST_WAITING))
            sample = self._listable.sample(SAMPLE)
            share = sample.share
            keys += estimated(sample.records, share)
        outbox = None if self._source is None else self._source.status()
        return Reading(keys=keys, oldest=oldest, share=share, outbox=outbox, seconds=time.monotonic() - began)

    def close(self) -> None:
        for each in (self._store, self._source):
            if each is not None:
                each.close()


def counted(waiting: Iterable[Listed]) -> tuple[Counter[Place], dict[Place, float]]:
    """Those that have no end: held, dead, and running under hold."""
    keys: Counter[Place] = Counter()
    oldest: dict[Place, float] = {}
    for each in waiting:
        state = each.record.situation(each.now)
        place = each.record.namespace, state
        keys[place] += 1
        if state in COUNTED:
            seconds = max(0, each.now - each.record.since(each.now)) / 1_000
            oldest[place] = max(seconds, oldest.get(place, 0.0))
    return keys, oldest


def estimated(sample: Iterable[Listed], share: float) -> Counter[Place]:
    """The others of these states, from a part of all."""
    keys: Counter[Place] = Counter()
    for each in sample:
        state = each.record.situation(each.now)
        if state in STATES and each.record.expires_at != NEVER:
            keys[each.record.namespace, state] += 1
    return Counter({place: round(number / share) for place, number in keys.items()})
