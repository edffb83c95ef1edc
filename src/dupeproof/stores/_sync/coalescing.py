# Written by tools/twins.py from src/dupeproof/stores/_async/coalescing.py; change that file instead.
"""A store whose concurrent calls leave as batches: for stores where a commit or a round trip is the price.

Each verb has a lane of its own. A task claims before it finishes and waits for the answer in between, so what happens
to one key keeps its order; calls that are not waited for have none, with or without lanes.
"""

from collections.abc import Sequence

from dupeproof.core.outcomes import Outcome
from dupeproof.core.records import ClaimRequest, Fail, Finish, Mark, Renew
from dupeproof.stores._sync.coalescer import Coalescer
from dupeproof.stores._sync.runtime import PerHome
from dupeproof.stores._sync.wrapping import MarkingStore, Wrapper


class _Lanes:
    def __init__(self, store: MarkingStore) -> None:
        # A claim that is cancelled is handed back by its caller: not before it was granted.
        self.claim = Coalescer[ClaimRequest, Outcome](store.claim, to_the_end=True)
        self.finish = Coalescer[Finish, bool](store.finish)
        self.fail = Coalescer[Fail, bool](store.fail)
        self.renew = Coalescer[Renew, bool](store.renew)
        self.mark = Coalescer[Mark, bool](store.mark)


class CoalescingStore(Wrapper):
    def __init__(self, store: MarkingStore) -> None:
        super().__init__(store)
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
