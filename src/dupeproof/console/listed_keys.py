"""The keys in one state, page by page: held and dead ones by the store's index, the others by a walk that takes its time.

A page never waits for a walk. It shows what was found so far, and how far the walk is. A walk rests after each page of the
store for as long as that page took, and ends when nobody looks any more.
"""

import asyncio
import contextlib
import time
from collections import Counter
from collections.abc import Sequence

from msgspec import Struct

from dupeproof.console.store_queries import Answer, Look
from dupeproof.core.protocols import AsyncListable, AsyncStore, ability
from dupeproof.core.records import Listed
from dupeproof.errors import ConfigError, DupeproofError
from dupeproof.guards.listings import EVERY_NAMESPACE, MOST_WAITING, Listing

PAGE = 50
MOST_AT_ONCE = 1_000
"""Keys that are changed together, and that a walk keeps."""
_WALKS = 8
_UNWATCHED = 15.0
"""Seconds without anybody who looks, after which a walk ends."""
_GOOD_FOR = 30.0
"""Seconds that what a walk found is shown, and at least twenty times as long as the walk took."""
_REST = 20
_PATIENCE = 0.3


class Wanted(Struct, frozen=True, kw_only=True):
    """What somebody wants to see. An empty text is any."""

    state: str = "held"
    namespace: str = ""
    name: str = ""
    error: str = ""
    order: str = "oldest"

    def listing(self, limit: int | None) -> Listing:
        if self.order not in ("oldest", "newest"):
            raise ConfigError("the order is oldest or newest")
        return Listing(
            self.state,
            self.namespace or EVERY_NAMESPACE,
            limit=limit,
            newest_first=self.order == "newest",
            name=self.name or None,
            error=self.error or None,
        )


class Waiting(Struct, frozen=True):
    """Records that have no end, and how many of them are held and dead."""

    records: list[Listed]
    counts: Counter[str]
    whole: bool
    """Whether these are all. Of more than a hundred thousand the rest is not read."""


class Matches(Struct, frozen=True, kw_only=True):
    """What is known by now of what somebody wants to see."""

    listed: Sequence[Listed] = ()
    total: int = 0
    kinds: Counter[tuple[str, str, str]] = Counter()
    looked_at: int = 0
    walks: bool = False
    complete: bool = False
    whole: bool = True
    error: str = ""
    age: float = 0.0


class ListedKeys:
    """Of one store. Pages of any number of people are served by one question to it."""

    def __init__(self, store: AsyncStore) -> None:
        found = ability(store, AsyncListable)  # type: ignore[type-abstract]
        self._listable: AsyncListable | None = found
        self._name = type(store).__name__
        self._look: Look[Waiting] = Look(self._read_waiting)
        self._walks: dict[Wanted, _Walk] = {}
        self._last: tuple[Waiting | None, Wanted, Matches] = (None, Wanted(), Matches())
        """A browser asks for the same list every second, and a hundred thousand records take a while to sort."""

    async def waiting(self) -> Answer[Waiting]:
        return await self._look() if self._listable is not None else Answer(error=self._cannot())

    async def matches(self, wanted: Wanted) -> Matches:
        listing = wanted.listing(None)
        if self._listable is None:
            return Matches(error=self._cannot())
        if not listing.is_indexed:
            return await self._walked(self._listable, wanted)
        answer = await self._look()
        if answer.value is None:
            return Matches(error=answer.error)
        read_from, asked, matches = self._last
        if read_from is answer.value and asked == wanted:
            return matches
        listing.add(answer.value.records)
        matches = Matches(
            listed=listing.listed(),
            total=listing.matching,
            kinds=listing.kinds,
            looked_at=listing.looked_at,
            complete=True,
            whole=answer.value.whole,
        )
        self._last = answer.value, wanted, matches
        return matches

    def outdated(self) -> None:
        """Something was changed. What a walk found is still shown, as each of its keys stands now."""
        self._look.outdated()

    def look_again(self, wanted: Wanted) -> None:
        walk = self._walks.get(wanted)
        if walk is not None and walk.task.done():
            del self._walks[wanted]

    async def close(self) -> None:
        for walk in self._walks.values():
            await walk.end()
        self._walks.clear()

    def _cannot(self) -> str:
        return f"{self._name} cannot list its records"

    async def _read_waiting(self) -> Waiting:
        assert self._listable is not None
        records = await self._listable.waiting(MOST_WAITING)
        counts: Counter[str] = Counter()
        for each in records:
            counts[each.record.reported(each.now)] += 1
        return Waiting(records, counts, len(records) < MOST_WAITING)

    async def _walked(self, listable: AsyncListable, wanted: Wanted) -> Matches:
        walk = self._walks.get(wanted)
        if walk is None or walk.is_outdated:
            for other in [each for each, old in self._walks.items() if old.is_outdated]:
                del self._walks[other]
            while len(self._walks) >= _WALKS:
                await self._walks.pop(next(iter(self._walks))).end()
            walk = self._walks[wanted] = _Walk(listable, wanted.listing(MOST_AT_ONCE))
        walk.watched_at = time.monotonic()
        await asyncio.wait({walk.task}, timeout=_PATIENCE)
        return walk.matches()


class _Walk:
    """Over all records of a store, for what is wanted."""

    def __init__(self, listable: AsyncListable, listing: Listing) -> None:
        self._listable = listable
        self._listing = listing
        self._began = self._ended = self.watched_at = time.monotonic()
        self._complete = False
        self._error = ""
        self.task = asyncio.create_task(self._go())

    @property
    def is_outdated(self) -> bool:
        good_for = max(_GOOD_FOR, _REST * (self._ended - self._began))
        return self.task.done() and (not self._complete or time.monotonic() - self._ended > good_for)

    def matches(self) -> Matches:
        return Matches(
            listed=self._listing.listed(),
            total=self._listing.matching,
            kinds=self._listing.kinds,
            looked_at=self._listing.looked_at,
            walks=True,
            complete=self._complete,
            error=self._error,
            age=time.monotonic() - self._ended if self._complete else 0.0,
        )

    async def end(self) -> None:
        self.task.cancel()
        with contextlib.suppress(asyncio.CancelledError):
            await self.task

    async def _go(self) -> None:
        try:
            asked = time.monotonic()
            async for page in self._listable.records():
                self._listing.add(page)
                now = time.monotonic()
                if now - self.watched_at > _UNWATCHED:
                    return
                await asyncio.sleep(now - asked)
                asked = time.monotonic()
            self._complete = True
        except DupeproofError as exc:
            self._error = str(exc)
        finally:
            self._ended = time.monotonic()
