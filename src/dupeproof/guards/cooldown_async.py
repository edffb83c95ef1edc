# No twin: the answer is something to await here, a number in the sync counterpart.
"""AsyncCooldown: this action on this entity at most once in so long."""

from collections.abc import Generator
from types import TracebackType
from typing import Any, Self

from dupeproof import defaults
from dupeproof.core.durations import Duration
from dupeproof.core.events import logger
from dupeproof.core.protocols import AsyncSeenSet, AsyncStore
from dupeproof.core.records import Mark
from dupeproof.errors import ConfigError, StoreUnavailable
from dupeproof.guards.options import Key, SlotNames, resolve_store
from dupeproof.stores import open_async_store
from dupeproof.stores.clients import StoreClient


class AsyncSlot:
    """Await it for True or False, or enter it: `async with cooldown.allow(…) as allowed:`."""

    def __init__(self, store: AsyncSeenSet, mark: Mark) -> None:
        self._store = store
        self._mark = mark
        self._allowed = False

    def __await__(self) -> Generator[Any, Any, bool]:
        return self._take().__await__()

    async def _take(self) -> bool:
        [self._allowed] = await self._store.mark([self._mark])
        return self._allowed

    async def give_back(self) -> bool:
        """Open the slot again; False when it was not, or is no longer, this one's."""
        return self._allowed and (await self._store.unmark([self._mark]))[0]

    async def __aenter__(self) -> bool:
        return await self._take()

    async def __aexit__(
        self, kind: type[BaseException] | None, exc: BaseException | None, traceback: TracebackType | None
    ) -> None:
        # A cancellation says nothing about whether the action happened; only its own error does.
        if isinstance(exc, Exception):
            try:
                await self.give_back()
            except StoreUnavailable as down:
                logger.warning(
                    "A cooldown slot could not be given back; it stays taken for its window: %s", down
                )


class AsyncCooldown:
    """At most one of each action per entity in any stretch of `within`. Slots expire by themselves."""

    def __init__(self, store: str | StoreClient | AsyncStore, *, namespace: str = defaults.NAMESPACE) -> None:
        self._store = resolve_store(store, open_async_store, is_async=True)
        self._owned = isinstance(store, str)
        if not isinstance(self._store, AsyncSeenSet):
            raise ConfigError(f"{type(self._store).__name__} keeps no marks, so it cannot keep a cooldown")
        self._slots: AsyncSeenSet = self._store
        self._names = SlotNames(namespace)

    def allow(self, entity: Key, action: Key, within: Duration, data: object = None) -> AsyncSlot:
        """True once per `within`, judged by the store's clock; with `data`, once for each different data."""
        return AsyncSlot(self._slots, self._names.mark(entity, action, within, data))

    async def clear(self, entity: Key, action: Key, data: object = None) -> bool:
        """Open the slot again, whoever took it. True when it was taken."""
        [taken] = await self._store.forget([self._names.digest(entity, action, data)])
        return taken

    async def close(self) -> None:
        if self._owned:
            await self._store.close()

    async def __aenter__(self) -> Self:
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, exc: BaseException | None, traceback: TracebackType | None
    ) -> None:
        await self.close()
