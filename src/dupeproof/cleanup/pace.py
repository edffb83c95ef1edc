"""How fast to purge: the size of batches, the pauses between them, the delays between passes. Pure."""

import math
import random

from msgspec import Struct

from dupeproof.core.durations import Duration, milliseconds
from dupeproof.errors import ConfigError

_LONGEST_PAUSE = 1.0
_FIRST_RETRY = 0.5
_SPREAD = 0.1


class PurgeReport(Struct, frozen=True, kw_only=True):
    """What one pass did."""

    removed: int
    batches: int
    seconds: float
    complete: bool
    """Nothing expired was left. False when the pass was stopped before its end."""
    lag: float | None = None
    """Seconds: nothing that is gone now had been expired for longer. None on the first pass of a purger."""


class Pace(Struct, frozen=True):
    every: float
    """Seconds between passes."""
    batch: int
    pause: float

    def after_batch(self, seconds: float) -> float:
        """Rest in proportion to the batch: what slows the purge, a busy store, also makes it give way."""
        return min(seconds * self.pause, _LONGEST_PAUSE)

    def after_pass(self) -> float:
        """Spread a little, so that services started together do not all come at once for ever."""
        return self.every * random.uniform(1 - _SPREAD, 1 + _SPREAD)  # noqa: S311 - no secret

    def after_failure(self, failures: int) -> float:
        """Soon at first, then ever later; never later than the next regular pass would have been."""
        return min(self.every, _FIRST_RETRY * (1 << min(failures, 30)))


def make_pace(*, every: Duration, batch: object, pause: object) -> Pace:
    return Pace(milliseconds(every, name="every") / 1_000, _rows(batch), _share(pause))


def _rows(batch: object) -> int:
    if isinstance(batch, int) and not isinstance(batch, bool) and batch >= 1:
        return batch
    raise ConfigError(f"batch must be a number of rows, at least 1; got {batch!r}")


def _share(pause: object) -> float:
    if isinstance(pause, int | float) and not isinstance(pause, bool) and 0 <= pause < math.inf:
        return float(pause)
    raise ConfigError(f"pause must be 0 or more, as a share of the time a batch took; got {pause!r}")
