"""Finished records this process has met, to answer replays without asking the store.

Sound because a finished record does not change inside its window. What ends it early, `forget`, is noticed at once when
it goes through the same guard, and after `longest` seconds when it does not.
"""

import time
from collections import OrderedDict

from dupeproof.core.outcomes import Done, Mismatch

_MISMATCH = Mismatch()


class FinishedCache:
    """At most `size` of them; the one that was not asked for the longest goes first."""

    def __init__(self, size: int, longest: float) -> None:
        self._size = size
        self._longest = longest
        self._kept: OrderedDict[bytes, tuple[float, bytes, Done]] = OrderedDict()
        self.drops = 0
        """Who asks the store remembers this number before, and shows it with what is to be kept: a record that was
        asked for before something was dropped may be the very one."""

    def find(self, key: bytes, fingerprint: bytes) -> Done | Mismatch | None:
        try:
            until, known, done = self._kept[key]
            if time.monotonic() < until:
                self._kept.move_to_end(key)
                return _MISMATCH if fingerprint and known and fingerprint != known else done
            del self._kept[key]
        except KeyError:  # also when another thread removed it between two of these lines
            return None
        return None

    def keep(self, key: bytes, fingerprint: bytes, done: Done, *, until: float, drops: int) -> None:
        """`until` is the end of its window by `time.monotonic`, or sooner."""
        if drops != self.drops:
            return
        self._kept[key] = (min(until, time.monotonic() + self._longest), fingerprint, done)
        if drops != self.drops:  # dropped in this moment, perhaps before it was kept
            self._kept.pop(key, None)
        while len(self._kept) > self._size:
            self._kept.popitem(last=False)

    def drop(self, key: bytes) -> None:
        self.drops += 1
        self._kept.pop(key, None)

    def __len__(self) -> int:
        return len(self._kept)
