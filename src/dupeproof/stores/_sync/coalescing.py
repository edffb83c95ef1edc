# Written by tools/twins.py from src/dupeproof/stores/_async/coalescing.py; change that file instead.
"""A store whose concurrent calls leave as batches: for stores where a commit or a round trip is the price.

Each verb has a lane of its own. A task claims before it finishes and waits for the answer in between, so what happens
to one key keeps its order; calls that are not waited for have none, with or without lanes.
"""

from collections.abc import Sequence
from typing import Any, Protocol

from dupeproof.core.outcomes import Outcome
from dupeproof.core.protocols import SeenSet, Store
from dupeproof.core.records import (
    ClaimRequest,
    Fail,
    Finish,
    Found,
    FoundMark,
    Health,
    Mark,
    Release,
    Renew,
    Stats,
)
from dupeproof.stores._sync.coalescer import Coalescer
from dupeproof.stores._sync.runtime import PerHome


class MarkingStore(Store, SeenSet, Protocol):
    """What can be coalesced: records and marks."""


class _Lanes:
    def __init__(self, store: MarkingStore) -> None:
        # A claim that is cancelled is handed back by its caller: not before it was granted.
        self.claim = Coalescer[ClaimRequest, Outcome](store.claim, to_the_end=True)
        self.finish = Coalescer[Finish, bool](store.finish)
        self.fail = Coalescer[Fail, bool](store.fail)
        self.renew = Coalescer[Renew, bool](store.renew)
        self.mark = Coalescer[Mark, bool](store.mark)


class CoalescingStore:
    def __init__(self, store: MarkingStore) -> None:
        self._store = store
        self._lanes = PerHome(lambda: _Lanes(store), lambda _: None)

    def claim(self, requests: Sequence[ClaimRequest]) -> list[Outcome]:
        return self._lanes.get().claim(requests)

    def finish(self, changes: Sequence[Finish]) -> list[bool]:
        return self._lanes.get().finish(changes)

    def fail(self, changes: Sequence[Fail]) -> list[bool]:
        return self._lanes.get().fail(changes)

    def renew(self, changes: Sequence[Renew]) -> list[bool]:
        return self._lanes.get().renew(changes)

    def mark(self, marks: Sequence[Mark]) -> list[bool]:
        return self._lanes.get().mark(marks)

    def release(self, changes: Sequence[Release]) -> list[bool]:
        return self._store.release(changes)

    def get(self, keys: Sequence[bytes]) -> list[Found | None]:
        return self._store.get(keys)

    def forget(self, keys: Sequence[bytes]) -> list[bool]:
        return self._store.forget(keys)

    def unmark(self, marks: Sequence[Mark]) -> list[bool]:
        return self._store.unmark(marks)

    def marks(self, keys: Sequence[bytes]) -> list[FoundMark | None]:
        return self._store.marks(keys)

    def purge(self, limit: int) -> int:
        return self._store.purge(limit)

    def stats(self) -> Stats:
        return self._store.stats()

    def check(self) -> Health:
        return self._store.check()

    def close(self) -> None:
        self._store.close()

    def __getattr__(self, name: str) -> Any:
        """Abilities of the store's own, such as its schema."""
        return getattr(self._store, name)
