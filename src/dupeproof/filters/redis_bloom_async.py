"""AsyncRedisBloom: one Bloom filter for many processes, in Redis, with its module or without."""

from collections.abc import Callable, Iterable, Sequence
from types import TracebackType
from typing import Any, Self, TypeVar

from dupeproof.filters import redis_bloom_layout
from dupeproof.filters.options import MOST_IDS, Acceptance, OnceOver, check_error_rate, whole
from dupeproof.filters.redis_async import redis_store
from dupeproof.filters.redis_bits_async import AsyncBits, open_bits
from dupeproof.filters.stats import FilterStats
from dupeproof.keys.names import Key, check_key, check_keys, key_digest
from dupeproof.stores.clients import StoreClient
from dupeproof.stores.redis import AsyncRedisStore
from dupeproof.stores.redis.resp import pack

T = TypeVar("T")
_BATCH = 1_000


class AsyncRedisBloom:
    """A Bloom filter of this name for `capacity` ids, shared by all who open it with the same capacity and error rate.

    Where the server has the Bloom module, the filter is the module's; past its capacity that one takes more memory. On
    a plain Redis it is a string of about 1.9 bytes an id at 0.1 %; past its capacity its error rate grows. It
    never forgets; `clear` empties it. For a window there is `AsyncCompactSeen`.

    `add` and `might_have` answer "surely new" or "probably known"; only with `accept_errors=True` does it drop messages by
    itself, in `seen` and `fresh`. Each batch of a thousand is one step inside Redis and one round trip.
    """

    def __init__(
        self,
        store: str | StoreClient | AsyncRedisStore,
        name: str,
        capacity: int,
        error_rate: float = 0.001,
        *,
        accept_errors: bool = False,
    ) -> None:
        self._settings = redis_bloom_layout.Settings(
            name=name,
            names=redis_bloom_layout.names(name),
            capacity=whole(capacity, "capacity", most=MOST_IDS),
            error_rate=check_error_rate(error_rate),
            shape=redis_bloom_layout.shape(capacity, error_rate),
            made_for=redis_bloom_layout.made_for(capacity, error_rate),
        )
        self._acceptance = Acceptance(accept_errors, error_rate)
        self._over = OnceOver()
        self._digest = key_digest(name)
        self._owned = isinstance(store, str)
        self._store = redis_store(store)
        self._bits: AsyncBits | None = None

    async def add(self, key: Key) -> bool:
        """Add the id. True: it was surely not there before. False: it probably was."""
        [new] = await self._add([check_key(key)])
        return new

    async def add_many(self, keys: Iterable[Key]) -> list[bool]:
        """The same for many, in order; of an id that stands in it twice, the first is new. A bad key adds none."""
        return await self._add(check_keys(keys))

    async def might_have(self, key: Key) -> bool:
        """False: surely not there. True: probably there."""
        [might] = await self.might_have_many([key])
        return might

    async def might_have_many(self, keys: Iterable[Key]) -> list[bool]:
        """The same for many, in order."""
        bits = await self._opened()
        digests = [self._digest(text) for text in check_keys(keys)]
        absent: list[bool] = []
        for start in range(0, len(digests), _BATCH):
            absent += await bits.look(digests[start : start + _BATCH])
        return [not each for each in absent]

    async def seen(self, key: Key) -> bool:
        """Whether the id was there before, wrong for new ones at the accepted rate; adds it in the same step."""
        self._acceptance.check()
        return not await self.add(key)

    async def fresh(self, items: Iterable[T], key: Callable[[T], Key] | None = None) -> list[T]:
        """The items not there before, in order, each id once; drops new ones at the accepted rate."""
        self._acceptance.check()
        chosen = list(items)
        keys: Iterable[Any] = chosen if key is None else map(key, chosen)
        new = await self._add(check_keys(keys))
        return [item for item, is_new in zip(chosen, new, strict=True) if is_new]

    async def stats(self) -> FilterStats:
        held = await (await self._opened()).held()
        return FilterStats(
            capacity=self._settings.capacity,
            added=held.added,
            bytes=held.bytes,
            stated_error_rate=self._settings.error_rate,
            estimated_error_rate=held.error_rate,
            generations=held.generations,
        )

    async def clear(self) -> None:
        """Remove the filter, whatever it was made for; the next use makes it anew."""
        names = self._settings.names
        self._bits = None
        await self._store.client.send([pack(b"DEL", names.module, names.bits, names.made_for)], [names.tag])

    async def close(self) -> None:
        if self._owned:
            await self._store.close()

    async def __aenter__(self) -> Self:
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, exc: BaseException | None, traceback: TracebackType | None
    ) -> None:
        await self.close()

    async def _opened(self) -> AsyncBits:
        if self._bits is None:
            self._bits = await open_bits(self._store.client, self._settings)
        return self._bits

    async def _add(self, texts: Sequence[str]) -> list[bool]:
        bits = await self._opened()
        digests = [self._digest(text) for text in texts]
        new: list[bool] = []
        for start in range(0, len(digests), _BATCH):
            answers, added = await bits.add(digests[start : start + _BATCH])
            new += answers
            self._over.look(f"The Redis filter {self._settings.name!r}", added, self._settings.capacity)
        return new
