# No twin: the answer is a number here, something to await in the async counterpart.
"""Cooldown: this action on this entity at most once in so long."""

from types import TracebackType
from typing import Self

from dupeproof.core.durations import Duration
from dupeproof.core.events import logger
from dupeproof.core.protocols import SeenSet, Store
from dupeproof.core.records import Mark
from dupeproof.errors import ConfigError, StoreUnavailable
from dupeproof.guards.options import Key, SlotNames, resolve_store
from dupeproof.stores import open_store
from dupeproof.stores.clients import StoreClient


class Slot(int):
    """True or False. As a context manager it gives the slot back when the block raises."""

    _store: SeenSet
    _mark: Mark

    def __new__(cls, allowed: bool, store: SeenSet, mark: Mark) -> Self:
        slot = super().__new__(cls, allowed)
        slot._store = store
        slot._mark = mark
        return slot

    def __repr__(self) -> str:
        return repr(bool(self))

    def give_back(self) -> bool:
        """Open the slot again; False when it was not, or is no longer, this one's."""
        return bool(self) and self._store.unmark([self._mark])[0]

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, exc: BaseException | None, traceback: TracebackType | None
    ) -> None:
        # An interrupt tells nothing about whether the action happened; only its own error does.
        if isinstance(exc, Exception):
            try:
                self.give_back()
            except StoreUnavailable as down:
                logger.warning(
                    "A cooldown slot could not be given back; it stays taken for its window: %s", down
                )


class Cooldown:
    """At most one of each action per entity in any stretch of `within`. Slots expire by themselves."""

    def __init__(self, store: str | StoreClient | Store, *, namespace: str = "default") -> None:
        self._store = resolve_store(store, open_store, is_async=False)
        self._owned = isinstance(store, str)
        if not isinstance(self._store, SeenSet):
            raise ConfigError(f"{type(self._store).__name__} keeps no marks, so it cannot keep a cooldown")
        self._slots: SeenSet = self._store
        self._names = SlotNames(namespace)

    def allow(self, entity: Key, action: Key, within: Duration, data: object = None) -> Slot:
        """True once per `within`, judged by the store's clock; with `data`, once for each different data."""
        mark = self._names.mark(entity, action, within, data)
        [free] = self._slots.mark([mark])
        return Slot(free, self._slots, mark)

    def clear(self, entity: Key, action: Key, data: object = None) -> bool:
        """Open the slot again, whoever took it. True when it was taken."""
        return self._store.forget([self._names.digest(entity, action, data)])[0]

    def close(self) -> None:
        if self._owned:
            self._store.close()

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, exc: BaseException | None, traceback: TracebackType | None
    ) -> None:
        self.close()
