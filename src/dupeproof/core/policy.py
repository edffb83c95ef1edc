"""The choices a user makes once for a guard, parsed and checked in one place."""

from typing import Any, Literal, get_args

from msgspec import Struct
from msgspec.structs import replace

from dupeproof import defaults
from dupeproof.core.durations import Duration, milliseconds
from dupeproof.core.records import Terms
from dupeproof.errors import ConfigError

OnBusy = Literal["raise", "wait"]
OnAbandoned = Literal["rerun", "hold"]
OnStoreDown = Literal["raise", "run"]


class Policy(Struct, frozen=True):
    terms: Terms
    wait: float
    """Seconds to wait for a busy key; 0 means raise at once."""
    run_when_down: bool
    beat: float
    """Seconds between two renewals of a claim."""

    def changed(self, *, window: Duration | None, lease: Duration | None) -> "Policy":
        terms = self.terms
        if window is not None:
            terms = replace(terms, window=milliseconds(window, name="window"))
        if lease is not None:
            terms = replace(terms, lease=milliseconds(lease, name="lease"))
        return replace(self, terms=terms, beat=_beat(terms))


def make_policy(
    *,
    namespace: str,
    window: Duration,
    lease: Duration,
    on_busy: OnBusy,
    wait: Duration,
    on_abandoned: OnAbandoned,
    max_attempts: int | None,
    on_store_down: OnStoreDown,
) -> Policy:
    _one_of("on_busy", on_busy, OnBusy)
    _one_of("on_abandoned", on_abandoned, OnAbandoned)
    _one_of("on_store_down", on_store_down, OnStoreDown)
    patience = milliseconds(wait, name="wait") / 1_000
    terms = Terms(
        namespace=namespace,
        lease=milliseconds(lease, name="lease"),
        window=milliseconds(window, name="window"),
        hold=on_abandoned == "hold",
        max_attempts=_attempts(max_attempts),
    )
    return Policy(terms, patience if on_busy == "wait" else 0.0, on_store_down == "run", _beat(terms))


def _beat(terms: Terms) -> float:
    return terms.lease / 1_000 / defaults.HEARTBEATS_PER_LEASE


def _attempts(value: object) -> int:
    if value is None:
        return 0
    if isinstance(value, int) and not isinstance(value, bool) and value >= 1:
        return value
    raise ConfigError(
        f"max_attempts must be a whole number of at least 1, or None for no limit; got {value!r}"
    )


def _one_of(name: str, value: object, choices: Any) -> None:
    allowed = get_args(choices)
    if value not in allowed:
        raise ConfigError(f"{name} must be one of {', '.join(map(repr, allowed))}; got {value!r}")
