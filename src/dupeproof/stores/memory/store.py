# No twin: one file serves both, and tasks have it written for them by hand.
"""The store in a dict: for tests, single processes, and as the plainest reading of the contract."""

import platform
import threading
from collections import Counter
from collections.abc import Callable, Sequence
from typing import TypeVar
from weakref import ref

from dupeproof import forks
from dupeproof.core import transitions
from dupeproof.core.clock import Clock, system_clock
from dupeproof.core.outcomes import Outcome
from dupeproof.core.records import (
    NEVER,
    ClaimRequest,
    Fail,
    Finish,
    Found,
    FoundMark,
    Health,
    Mark,
    Record,
    Release,
    Renew,
    Stats,
    Terms,
)
from dupeproof.core.sequences import Number, Row, SequenceStats, Verdict, decide
from dupeproof.core.states import State
from dupeproof.stores.memory import owned
from dupeproof.stores.memory.copies import MemoryCopies
from dupeproof.stores.memory.names import Names
from dupeproof.stores.memory.owned import Owned, Owner

Change = TypeVar("Change", Finish, Fail, Release, Renew)
_FIRST_SWEEP = 10_000


class MemoryStore(forks.Locked):
    """Sync store over dicts; one lock makes each verb atomic."""

    def __init__(self, *, clock: Clock = system_clock) -> None:
        super().__init__()
        self._clock = clock
        self._records: dict[bytes, Record] = {}
        self._marks: dict[bytes, tuple[int, Mark]] = {}
        self._names: dict[str, Names] = {}
        self._copies = MemoryCopies(clock)
        self._rows: dict[bytes, Row] = {}
        self._waiters: dict[bytes, list[Callable[[], object]]] = {}
        self._sweep_at = _FIRST_SWEEP

    def claim(self, requests: Sequence[ClaimRequest]) -> list[Outcome]:
        now = self._clock()
        outcomes = []
        with self._lock:
            for request in requests:
                outcome, changed = transitions.claim(self._records.get(request.key), request, now)
                outcomes.append(outcome)
                if changed is not None:
                    self._records[request.key] = changed
            if len(self._records) >= self._sweep_at:
                self._sweep(now)
        return outcomes

    def begin(self, key: bytes, terms: Terms, fingerprint: bytes) -> Owner | None:
        forks.look()
        now = self._clock()
        lease_until = now + terms.lease
        owner = Owner()
        record = owner.record = Owned(
            state=State.RUNNING,
            token=b"",
            attempt=1,
            fingerprint=fingerprint,
            namespace=terms.namespace,
            hold=terms.hold,
            created_at=now,
            lease_until=lease_until,
            expires_at=NEVER if terms.hold else lease_until + terms.window,
            owner=ref(owner),
            process=owned.this_process.mark,
        )
        with self._lock:
            if self._records.setdefault(key, record) is not record:
                return None
            if len(self._records) >= self._sweep_at:
                self._sweep(now)
        return owner

    def complete(self, key: bytes, owner: Owner, window: int, result: bytes, codec: str) -> bool:
        now = self._clock()
        begun = owner.record
        done = Record(
            state=State.DONE,
            token=begun.token,
            attempt=1,
            fingerprint=begun.fingerprint,
            namespace=begun.namespace,
            hold=begun.hold,
            created_at=begun.created_at,
            lease_until=begun.lease_until,
            finished_at=now,
            expires_at=now + window,
            codec=codec,
            result=result,
        )
        with self._lock:
            if self._records.get(key) is not begun:
                return False
            self._records[key] = done
            if self._waiters:
                self._wake(key)
        return True

    def hand_over(self, request: ClaimRequest, owner: Owner) -> bool:
        """Make it an ordinary claim, of the request's token, with a lease from now on."""
        with self._lock:
            if self._records.get(request.key) is not owner.record:
                return False
            _, claimed = transitions.claim(None, request, self._clock())
            assert claimed is not None
            self._records[request.key] = claimed
        return True

    def finish(self, changes: Sequence[Finish]) -> list[bool]:
        return self._apply(transitions.finish, changes)

    def fail(self, changes: Sequence[Fail]) -> list[bool]:
        return self._apply(transitions.fail, changes)

    def release(self, changes: Sequence[Release]) -> list[bool]:
        return self._apply(transitions.release, changes)

    def renew(self, changes: Sequence[Renew]) -> list[bool]:
        return self._apply(transitions.renew, changes)

    def get(self, keys: Sequence[bytes]) -> list[Found | None]:
        now = self._clock()
        with self._lock:
            found = [self._records.get(key) for key in keys]
        return [
            None if record is None or record.situation(now) is State.FREE else Found(record, now)
            for record in found
        ]

    def forget(self, keys: Sequence[bytes]) -> list[bool]:
        now = self._clock()
        answers = []
        with self._lock:
            for key in keys:
                record = self._records.pop(key, None)
                mark = self._marks.pop(key, None)
                self._wake(key)
                answers.append(
                    (record is not None and record.situation(now) is not State.FREE)
                    or (mark is not None and mark[0] > now)
                )
        return answers

    def mark(self, marks: Sequence[Mark]) -> list[bool]:
        now = self._clock()
        answers = []
        with self._lock:
            for mark in marks:
                known = self._marks.get(mark.key)
                fresh = known is None or known[0] <= now
                if fresh:
                    self._marks[mark.key] = (now + mark.window, mark)
                answers.append(fresh)
            if len(self._marks) >= self._sweep_at:
                self._sweep(now)
        return answers

    def unmark(self, marks: Sequence[Mark]) -> list[bool]:
        now = self._clock()
        answers = []
        with self._lock:
            for mark in marks:
                known = self._marks.get(mark.key)
                # A mark without a token is nobody's to take back.
                ours = (
                    mark.token != b""
                    and known is not None
                    and known[0] > now
                    and known[1].token == mark.token
                )
                if ours:
                    del self._marks[mark.key]
                answers.append(ours)
        return answers

    def marks(self, keys: Sequence[bytes]) -> list[FoundMark | None]:
        now = self._clock()
        with self._lock:
            found = [self._marks.get(key) for key in keys]
        return [
            None
            if known is None or known[0] <= now
            else FoundMark(known[1].meta, known[0], now, known[1].token != b"")
            for known in found
        ]

    def names(self, namespace: str) -> Names:
        """The marks of a namespace by their very keys. Marks under a digest live apart from them."""
        return self._names.get(namespace) or self._names.setdefault(namespace, Names(self._clock))

    def copies(self) -> MemoryCopies:
        return self._copies

    def advance(self, numbers: Sequence[Number]) -> list[Verdict]:
        verdicts = []
        with self._lock:
            for number in numbers:
                verdict, changed = decide(self._rows.get(number.key), number)
                verdicts.append(verdict)
                if changed is not None:
                    self._rows[number.key] = changed
        return verdicts

    def retire(self, keys: Sequence[bytes]) -> list[bool]:
        with self._lock:
            return [self._rows.pop(key, None) is not None for key in keys]

    def sequences(self) -> SequenceStats:
        return SequenceStats(producers=len(self._rows))

    def purge(self, limit: int) -> int:
        with self._lock:
            gone = self._remove_expired(self._clock(), limit)
        for names in list(self._names.values()):
            gone += names.remove_expired(limit - gone)
        return gone

    def stats(self) -> Stats:
        now = self._clock()
        with self._lock:
            situations = Counter(record.situation(now) for record in self._records.values())
            live_marks = sum(expires_at > now for expires_at, _ in self._marks.values())
            total = len(self._records) + len(self._marks)
        for names in list(self._names.values()):
            kept, live = names.count()
            total, live_marks = total + kept, live_marks + live
        situations.pop(State.FREE, None)
        expired = total - sum(situations.values()) - live_marks
        return Stats(
            marks=live_marks,
            records={str(state): count for state, count in situations.items()},
            expired=expired,
        )

    def check(self) -> Health:
        return Health(store="memory", version=f"Python {platform.python_version()}")

    def close(self) -> None:
        """Nothing to give up: what is kept lives as long as the store."""

    def wait(self, key: bytes, seconds: float) -> None:
        changed = threading.Event()
        if self.watch(key, changed.set):
            changed.wait(seconds)
            self.unwatch(key, changed.set)

    def _apply(
        self, decide: Callable[[Record | None, Change, int], Record | None], changes: Sequence[Change]
    ) -> list[bool]:
        now = self._clock()
        answers = []
        with self._lock:
            for change in changes:
                record = decide(self._records.get(change.key), change, now)
                answers.append(record is not None)
                if record is None:
                    continue
                if record.attempt == 0:
                    del self._records[change.key]
                else:
                    self._records[change.key] = record
                if self._waiters and record.state is not State.RUNNING:
                    self._wake(change.key)
        return answers

    def watch(self, key: bytes, callback: Callable[[], object]) -> bool:
        """Ask to be called when the key is no longer running; False when it is not running now."""
        with self._lock:
            record = self._records.get(key)
            if record is None or record.situation(self._clock()) is not State.RUNNING:
                return False
            self._waiters.setdefault(key, []).append(callback)
            return True

    def unwatch(self, key: bytes, callback: Callable[[], object]) -> None:
        with self._lock:
            callbacks = self._waiters.get(key, [])
            if callback in callbacks:
                callbacks.remove(callback)
            if not callbacks:
                self._waiters.pop(key, None)

    def _wake(self, key: bytes) -> None:
        for callback in self._waiters.pop(key, ()):
            callback()

    def _sweep(self, now: int) -> None:
        """Keep memory within twice what is live: called when a dict has doubled, so each id pays once."""
        self._remove_expired(now, limit=len(self._records) + len(self._marks))
        self._sweep_at = max(_FIRST_SWEEP, 2 * max(len(self._records), len(self._marks)))

    def _remove_expired(self, now: int, limit: int) -> int:
        gone_marks = [key for key, (expires_at, _) in self._marks.items() if expires_at <= now][:limit]
        for key in gone_marks:
            del self._marks[key]
        gone = [key for key, record in self._records.items() if record.situation(now) is State.FREE]
        gone = gone[: limit - len(gone_marks)]
        for key in gone:
            del self._records[key]
        return len(gone_marks) + len(gone)
