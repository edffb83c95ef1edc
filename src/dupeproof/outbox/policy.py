"""The choices made once for a relay, parsed and checked in one place."""

import random
from typing import Literal, get_args

from msgspec import Struct

from dupeproof.core.durations import Duration, milliseconds
from dupeproof.errors import ConfigError

AfterDead = Literal["wait", "go_on"]
MAX_LANES = 16
"""Of 64: so that four relays find work at the same time."""
_SPREAD = 0.2


class RelayPolicy(Struct, frozen=True):
    batch: int
    lease: int
    poll: float
    max_attempts: int | None
    backoff: int
    max_backoff: int
    key_waits: bool
    keep: int
    """Milliseconds; 0 to remove what was sent at once."""
    drain: float

    def used_up(self, attempt: int) -> bool:
        """Whether there may be no such attempt: those before it ended with their relays."""
        return self.max_attempts is not None and attempt > self.max_attempts

    def dead(self, attempt: int) -> bool:
        return self.max_attempts is not None and attempt >= self.max_attempts

    def delay(self, attempt: int) -> int:
        """Milliseconds until the next attempt: doubled each time, spread a little so that they do not come together."""
        exact = min(self.max_backoff, self.backoff << min(attempt - 1, 40))
        return round(exact * random.uniform(1 - _SPREAD, 1))  # noqa: S311 - no secret


def make_policy(
    *,
    batch: object,
    lease: Duration,
    poll: Duration,
    max_attempts: object,
    backoff: Duration,
    max_backoff: Duration,
    after_dead: AfterDead,
    keep: Duration | None,
    drain: Duration,
) -> RelayPolicy:
    if after_dead not in get_args(AfterDead):
        raise ConfigError(f"after_dead must be 'wait' or 'go_on'; got {after_dead!r}")
    return RelayPolicy(
        batch=_whole(batch, "batch"),
        lease=milliseconds(lease, name="lease"),
        poll=milliseconds(poll, name="poll") / 1_000,
        max_attempts=None if max_attempts is None else _whole(max_attempts, "max_attempts"),
        backoff=milliseconds(backoff, name="backoff"),
        max_backoff=milliseconds(max_backoff, name="max_backoff"),
        key_waits=after_dead == "wait",
        keep=0 if keep is None else milliseconds(keep, name="keep"),
        drain=milliseconds(drain, name="drain") / 1_000,
    )


def _whole(value: object, name: str) -> int:
    if isinstance(value, int) and not isinstance(value, bool) and 1 <= value <= 100_000:
        return value
    raise ConfigError(f"{name} must be a whole number from 1 to 100,000; got {value!r}")
