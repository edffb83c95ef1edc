# Written by tools/twins.py from src/dupeproof/stores/_async/wrapping.py; change that file instead.
"""A store around another one: every verb is handed on, until a subclass says otherwise."""

from collections.abc import Sequence
from typing import Protocol

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


class MarkingStore(Store, SeenSet, Protocol):
    """What can be wrapped: records and marks."""


class Wrapper:
    def __init__(self, store: MarkingStore) -> None:
        self._store = self.wrapped = store

    def claim(self, requests: Sequence[ClaimRequest]) -> list[Outcome]:
        return self._store.claim(requests)

    def finish(self, changes: Sequence[Finish]) -> list[bool]:
        return self._store.finish(changes)

    def fail(self, changes: Sequence[Fail]) -> list[bool]:
        return self._store.fail(changes)

    def renew(self, changes: Sequence[Renew]) -> list[bool]:
        return self._store.renew(changes)

    def mark(self, marks: Sequence[Mark]) -> list[bool]:
        return self._store.mark(marks)

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
