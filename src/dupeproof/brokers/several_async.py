"""Several queues of one broker for one consumer: each is a source of its own, and they are asked in turn."""

from collections.abc import Sequence
from typing import Any

from msgspec.structs import replace

from dupeproof.brokers.base import Decided, Delivery, Features
from dupeproof.brokers.protocols_async import AsyncSource

_SLICE = 0.02
"""Seconds to wait for one of them, before the next is asked."""


def one_of(sources: Sequence[AsyncSource]) -> AsyncSource:
    return sources[0] if len(sources) == 1 else AsyncSeveral(sources)


class AsyncSeveral:
    """A delivery knows which source it came from, and is answered there. What loses one connection gives up all."""

    def __init__(self, sources: Sequence[AsyncSource]) -> None:
        self._sources = list(sources)
        self.name = ", ".join(each.name for each in sources)

    @property
    def features(self) -> Features:
        """Signs of life are given to all at once: as often as the one wants them that wants them most."""
        found = self._sources[0].features
        times = [each for source in self._sources if (each := source.features.keep_alive) is not None]
        shortest = min(times, default=None)
        return found if found.keep_alive == shortest else replace(found, keep_alive=shortest)

    async def open(self, most: int) -> None:
        for each in self._sources:
            await each.open(most)

    async def poll(self, most: int, seconds: float) -> list[Delivery]:
        """All are asked each time, which keeps their connections alive; the first to get room changes from time to time."""
        found: list[Delivery] = []
        for each in self._sources:
            wait = 0.0 if found else min(seconds, _SLICE)
            for delivery in await each.poll(most - len(found), wait):
                delivery.source = each
                found.append(delivery)
        self._sources.append(self._sources.pop(0))
        return found

    async def acknowledge(self, decided: Sequence[Decided]) -> None:
        for source in self._sources:
            own = [pair for pair in decided if pair[0].source is source]
            if own:
                await source.acknowledge(own)

    async def keep(self, deliveries: Sequence[Delivery]) -> None:
        for source in self._sources:
            own = [each for each in deliveries if each.source is source]
            if own:
                await source.keep(own)

    def holds(self, delivery: Delivery) -> bool:
        return bool(delivery.source.holds(delivery))

    async def record(self, connection: Any, deliveries: Sequence[Delivery]) -> None:
        for source in self._sources:
            own = [each for each in deliveries if each.source is source]
            if own:
                await source.record(connection, own)

    async def lag(self) -> int | None:
        found = [await each.lag() for each in self._sources]
        known = [each for each in found if each is not None]
        return sum(known) if known else None

    async def close(self) -> None:
        for each in self._sources:
            await each.close()
