# Written by tools/twins.py from src/dupeproof/stores/wrappers_async.py; change that file instead.
"""Stores around another store: one whose calls are timed, one whose concurrent calls leave as batches."""

import time
from collections.abc import Sequence
from typing import Any, Protocol

from dupeproof.core.events import Event, Kind, Listener, publish
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
from dupeproof.stores.coalescer import Coalescer


class MarkingStore(Store, SeenSet, Protocol):
    """What can be wrapped: records and marks."""


class Wrapper:
    """Hands on the verbs that its kinds leave alone."""

    def __init__(self, store: MarkingStore) -> None:
        self._store = self.wrapped = store

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


class ObservedStore(Wrapper):
    """Stands below the coalescer, so the events show what was sent."""

    def __init__(self, store: MarkingStore, listeners: Sequence[Listener]) -> None:
        super().__init__(store)
        self._listeners = listeners

    def claim(self, requests: Sequence[ClaimRequest]) -> list[Outcome]:
        outcomes: list[Outcome] = self._timed("claim", self._store.claim, requests)
        return outcomes

    def finish(self, changes: Sequence[Finish]) -> list[bool]:
        answers: list[bool] = self._timed("finish", self._store.finish, changes)
        return answers

    def fail(self, changes: Sequence[Fail]) -> list[bool]:
        answers: list[bool] = self._timed("fail", self._store.fail, changes)
        return answers

    def renew(self, changes: Sequence[Renew]) -> list[bool]:
        answers: list[bool] = self._timed("renew", self._store.renew, changes)
        return answers

    def mark(self, marks: Sequence[Mark]) -> list[bool]:
        answers: list[bool] = self._timed("mark", self._store.mark, marks)
        return answers

    def _timed(self, verb: str, call: Any, items: Sequence[Any]) -> Any:
        began = time.perf_counter()
        try:
            return call(items)
        finally:
            took = time.perf_counter() - began
            event = Event(kind=Kind.STORE_CALL, namespace="", name=verb, count=len(items), seconds=took)
            publish(self._listeners, event)


class CoalescingStore(Wrapper):
    """Its five frequent verbs are coalescers, which send what comes together as one batch."""

    def __init__(self, store: MarkingStore) -> None:
        super().__init__(store)
        # A claim that is cancelled is handed back by its caller: not before it was granted.
        self.claim = Coalescer[ClaimRequest, Outcome](store.claim, to_the_end=True)
        self.finish = Coalescer[Finish, bool](store.finish)
        self.fail = Coalescer[Fail, bool](store.fail)
        self.renew = Coalescer[Renew, bool](store.renew)
        self.mark = Coalescer[Mark, bool](store.mark)
