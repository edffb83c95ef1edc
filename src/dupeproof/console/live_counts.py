"""What arrives in this process: counted where it happens, looked at once a second while somebody watches."""

import time
from collections import deque
from collections.abc import Callable

from dupeproof import forks
from dupeproof.console.rates import Rates, Sample, rates
from dupeproof.core.events import Event, Kind
from dupeproof.metrics.counters import MOST, Tallies

_APART = 1.0
_SAMPLES = 120
_OUTDATED = 15.0
"""Seconds. After a pause in which nobody looked the samples begin anew, or the first rate would be that of the pause."""
_UNCOUNTED = (Kind.STORE_CALL, Kind.BACKLOG, Kind.LAG)


class ConsoleListener(forks.Locked):
    """Give it to guards, relays and purgers as `events=`, and to the `ConsoleApp` of the same process.

    It costs a guard the same as any counting does, one step of the interpreter; nothing runs while nobody looks.
    """

    wants_store_calls = False

    def __init__(self, *, most_labels: int = MOST, clock: Callable[[], float] = time.monotonic) -> None:
        super().__init__()
        self._tallies = Tallies(most_labels)
        self.count_of = self._tallies.count_of
        self._clock = clock
        self._samples: deque[Sample] = deque(maxlen=_SAMPLES)

    def __call__(self, event: Event) -> None:
        if event.kind not in _UNCOUNTED:
            self._tallies.add(event)

    def rates(self) -> Rates:
        """As of now; the first look only begins to measure."""
        with self._lock:
            now = self._clock()
            if self._samples and now - self._samples[-1].at > _OUTDATED:
                self._samples.clear()
            if not self._samples or now - self._samples[-1].at >= _APART:
                self._samples.append(Sample(now, self._tallies.read()))
            return rates(list(self._samples))
