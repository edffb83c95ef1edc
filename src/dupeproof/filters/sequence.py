# Written by tools/twins.py from src/dupeproof/filters/sequence_async.py; change that file instead.
"""SequenceGuard: each number of a producer once, one row per producer, no window."""

from collections.abc import Iterable
from types import TracebackType
from typing import Any, Self, overload

from dupeproof import defaults
from dupeproof.core.protocols import Sequenced, Store, ability
from dupeproof.core.sequences import SequenceStats, Verdict
from dupeproof.errors import ConfigError
from dupeproof.filters.in_transaction import advance_on, create_schema_on
from dupeproof.filters.runtime import IS_ASYNC
from dupeproof.filters.sequences import Numbering, is_first
from dupeproof.keys.names import Key
from dupeproof.stores import open_store
from dupeproof.stores.clients import StoreClient
from dupeproof.stores.factory import resolve_store

Item = tuple[Key, int, int]
"""Producer, epoch, sequence number."""


class SequenceGuard:
    """Finds duplicates among numbered messages, by a row of about `gap` bits per producer.

    A producer numbers its messages in one direction and raises its epoch when it starts anew. Numbers may come out of
    order by up to `gap`; one that is further behind is `TOO_OLD`. A number may jump ahead by any distance: it is fresh,
    and what it left more than `gap` behind is too old from then on. An older epoch is `FENCED`.

    With a store the verdict is a step of its own, taken before your work. Called with a connection, it is part of the
    transaction open on it: the number counts as seen if, and only if, your work is committed.
    """

    def __init__(
        self,
        store: str | StoreClient | Store | None = None,
        *,
        namespace: str = defaults.NAMESPACE,
        gap: int = 1_024,
    ) -> None:
        self._numbering = Numbering(namespace, gap)
        self._owned = isinstance(store, str)
        self._store: Store | None = None
        self._sequences: Sequenced | None = None
        if store is not None:
            opened = resolve_store(store, open_store, is_async=IS_ASYNC)
            self._store = opened
            self._sequences = ability(opened, Sequenced)  # type: ignore[type-abstract]
            if self._sequences is None:
                raise ConfigError(f"{type(opened).__name__} keeps no sequences; give a URL instead")

    @overload
    def first(self, producer: Key, epoch: int, sequence: int, /) -> bool: ...

    @overload
    def first(self, connection: Any, producer: Key, epoch: int, sequence: int, /) -> bool: ...

    def first(self, *args: Any) -> bool:
        """Whether the message is new. Raises `SequenceRefused` when it is fenced or too old to decide."""
        *connection, producer, epoch, sequence = args
        [verdict] = self._decided(connection, [(producer, epoch, sequence)])
        return is_first(verdict)

    @overload
    def first_many(self, items: Iterable[Item], /) -> list[Verdict]: ...

    @overload
    def first_many(self, connection: Any, items: Iterable[Item], /) -> list[Verdict]: ...

    def first_many(self, *args: Any) -> list[Verdict]:
        """The verdict on each (producer, epoch, sequence), in order; a verdict is true when it is `FRESH`."""
        *connection, items = args
        return self._decided(connection, items)

    def _decided(self, connection: list[Any], items: Iterable[Item]) -> list[Verdict]:
        numbers = self._numbering.numbers(items)
        if not numbers:
            return []
        if connection:
            return advance_on(connection[0], numbers)
        return self._sequenced().advance(numbers)

    def retire(self, producer: Key) -> bool:
        """Forget a producer that will not come back. True when it was known."""
        [known] = self._sequenced().retire([self._numbering.key(producer)])
        return known

    def stats(self) -> SequenceStats:
        """Producers of all namespaces in the store, and what their rows take."""
        return self._sequenced().sequences()

    def create_schema(self, connection: Any) -> None:
        """Make the table on a connection of your own; making it twice is fine. By URL it makes itself."""
        create_schema_on(connection)

    def close(self) -> None:
        if self._owned and self._store is not None:
            self._store.close()

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, exc: BaseException | None, traceback: TracebackType | None
    ) -> None:
        self.close()

    def _sequenced(self) -> Sequenced:
        if self._sequences is not None:
            return self._sequences
        raise ConfigError("this guard was made without a store: pass your connection first, or give it a URL")
