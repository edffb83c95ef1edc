"""Marks of one namespace under the very text of their keys: what never leaves the process needs no digest.

Speed is the point here. `marker` gives a function that is little more than one `setdefault`, which the interpreter
does in one piece: the caller whose own object comes back was first. It only ever adds what is absent. Replacing and
removing what has expired is done under the lock, and so is everything else that is out of the ordinary.
"""

import time
from collections.abc import Callable, Sequence
from itertools import repeat

from dupeproof import forks
from dupeproof.core.clock import Clock, system_clock
from dupeproof.core.records import FoundMark
from dupeproof.keys.names import MAX_KEY_BYTES

_SHORTEST_REST = 1.0
"""Seconds between two sweeps, at least; otherwise half a window, so that memory holds one and a half of them."""
_LARGEST_SHARE = 20
"""One part in so many of the time may go into sweeping: a short window among many marks of a long one."""


class _Stamp(float):
    """A time that is equal to itself only: what a batch finds equal to its own stamp, it has put there."""

    __slots__ = ()
    __eq__ = object.__eq__
    __hash__ = object.__hash__


class Names(forks.Locked):
    def __init__(self, clock: Clock) -> None:
        super().__init__()
        self._clock: Callable[[], float] = time.time if clock is system_clock else lambda: clock() / 1_000
        self._until: dict[str, float] = {}
        self._metas: dict[str, bytes] = {}
        self._swept_at = 0.0
        self._took = 0.0

    def marker(self, window: int, otherwise: Callable[[object, object], bool]) -> Callable[..., bool]:
        """`seen(key, *, meta=None)` as a bare function; what is not a plain key alone is left to `otherwise`."""
        clock, remember, lasting = self._clock, self._until.setdefault, window / 1_000
        sweep_at = 0.0

        def seen(key: object, *, meta: object = None) -> bool:
            """Whether the key was seen inside the window; marks it if not, in the same step."""
            nonlocal sweep_at
            # What check_key lets pass without a second look, asked for at half the price.
            if (
                type(key) is str
                and meta is None
                and key.isascii()
                and key >= "!"
                and "\0" not in key
                and len(key) <= MAX_KEY_BYTES
            ):
                until = clock() + lasting
                known = remember(key, until)
                if known is until:
                    if until > sweep_at:
                        sweep_at = self._sweep(until - lasting, lasting) + lasting
                    return False
                if known > until - lasting:
                    return True
            return otherwise(key, meta)

        return seen

    def mark(self, key: str, window: int, meta: bytes = b"") -> bool:
        """True when the key was absent or expired."""
        now = self._clock()
        until = now + window / 1_000
        with self._lock:
            known = self._until.setdefault(key, until)
            if known is not until and known > now:
                return False
            self._until[key] = until
            if meta:
                self._metas[key] = meta
            else:
                self._metas.pop(key, None)
        self._sweep(now, window / 1_000)
        return True

    def mark_many(self, keys: Sequence[str], window: int) -> list[bool]:
        """Like `mark` for each, in order, without a step of the interpreter's for each."""
        if len(set(keys)) < len(keys):
            return [self.mark(key, window) for key in keys]
        now = self._clock()
        until = _Stamp(now + window / 1_000)
        self._sweep(now, window / 1_000)
        known = list(map(self._until.setdefault, keys, repeat(until)))
        if known == [until] * len(keys):  # an answer for most batches without a look at each key
            return [True] * len(keys)
        return [
            each is until or (each <= now and self.mark(key, window))
            for key, each in zip(keys, known, strict=True)
        ]

    def find(self, key: str) -> FoundMark | None:
        with self._lock:
            now, until = self._clock(), self._until.get(key)
            if until is None or until <= now:
                return None
            return FoundMark(self._metas.get(key, b""), int(until * 1_000), int(now * 1_000))

    def forget(self, key: str) -> bool:
        with self._lock:
            until = self._until.pop(key, None)
            self._metas.pop(key, None)
            return until is not None and until > self._clock()

    def count(self) -> tuple[int, int]:
        """How many there are, and how many of them have not expired."""
        now = self._clock()
        untils = list(self._until.values())
        return len(untils), sum(until > now for until in untils)

    def _sweep(self, now: float, lasting: float) -> float:
        """Sweep if it is time to. When it is time again, for one whose marks last that long."""
        rest = max(_SHORTEST_REST, lasting / 2, _LARGEST_SHARE * self._took)
        if not 0 <= now - self._swept_at <= rest:
            self._swept_at = now
            began = time.monotonic()
            self.remove_expired(len(self._until))
            self._took = time.monotonic() - began
        return self._swept_at + rest

    def remove_expired(self, limit: int) -> int:
        now = self._clock()
        with self._lock:
            gone = [key for key, until in list(self._until.items()) if until <= now][:limit]
            for key in gone:
                del self._until[key]
                self._metas.pop(key, None)
        return len(gone)
