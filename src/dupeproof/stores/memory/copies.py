"""Copies in memory: the plainest reading of what copies are."""

from collections.abc import Sequence

from msgspec import Struct

from dupeproof import forks
from dupeproof.core.clock import Clock
from dupeproof.core.records import Filling, Kept, Reservation

_FIRST_SWEEP = 10_000


class _Place(Struct, frozen=True):
    until: int
    since: int = 0
    token: bytes | None = None
    """While it is reserved."""
    kept: Kept | None = None
    fingerprint: bytes = b""


class MemoryCopies(forks.Locked):
    def __init__(self, clock: Clock) -> None:
        super().__init__()
        self._clock = clock
        self._places: dict[bytes, _Place] = {}
        self._sweep_at = _FIRST_SWEEP

    def reserve(self, places: Sequence[Reservation]) -> list[Kept | None]:
        now = self._clock()
        found = []
        with self._lock:
            for wanted in places:
                place = self._places.get(wanted.key)
                if place is None or place.until <= now:
                    place = _Place(now + wanted.window, now, wanted.token, None, wanted.fingerprint)
                    self._places[wanted.key] = place
                found.append(place.kept)
            if len(self._places) >= self._sweep_at:
                self._places = {key: place for key, place in self._places.items() if place.until > now}
                self._sweep_at = max(_FIRST_SWEEP, 2 * len(self._places))
        return found

    def fill(self, fillings: Sequence[Filling]) -> None:
        now = self._clock()
        with self._lock:
            for filling in fillings:
                place = self._places.get(filling.key)
                if place is None or place.token != filling.token:
                    continue
                until = min(place.until, place.since + filling.window)
                if until > now:
                    kept = Kept(
                        filling.value,
                        place.fingerprint if filling.fingerprint is None else filling.fingerprint,
                    )
                    self._places[filling.key] = _Place(until, kept=kept)
                else:
                    del self._places[filling.key]

    def vacate(self, places: Sequence[Reservation]) -> None:
        with self._lock:
            for given in places:
                place = self._places.get(given.key)
                if place is not None and place.token == given.token:
                    del self._places[given.key]

    def bar(self, keys: Sequence[bytes], milliseconds: int) -> None:
        until = self._clock() + milliseconds
        with self._lock:
            self._places.update((key, _Place(until)) for key in keys)

    def clear(self, keys: Sequence[bytes]) -> None:
        with self._lock:
            for key in keys:
                self._places.pop(key, None)


class AsyncMemoryCopies:
    def __init__(self, copies: MemoryCopies) -> None:
        self._copies = copies

    async def reserve(self, places: Sequence[Reservation]) -> list[Kept | None]:
        return self._copies.reserve(places)

    async def fill(self, fillings: Sequence[Filling]) -> None:
        self._copies.fill(fillings)

    async def vacate(self, places: Sequence[Reservation]) -> None:
        self._copies.vacate(places)

    async def bar(self, keys: Sequence[bytes], milliseconds: int) -> None:
        self._copies.bar(keys, milliseconds)

    async def clear(self, keys: Sequence[bytes]) -> None:
        self._copies.clear(keys)
