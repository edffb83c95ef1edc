# No twin: one file serves both, and tasks have it written for them by hand.
"""The store in a dict: for tests, single processes, and as the plainest reading of the contract."""

import platform
import threading
from collections import Counter
from collections.abc import Callable, Iterator, Sequence
from typing import TypeVar

from msgspec import Struct
from msgspec.structs import replace

from dupeproof import forks
from dupeproof.core import decisions
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
    Listed,
    Mark,
    Record,
    Release,
    Renew,
    Sample,
    Stats,
)
from dupeproof.core.sequences import Number, Row, SequenceStats, Verdict, decide
from dupeproof.core.states import State
from dupeproof.stores.memory.copies import MemoryCopies


class _Mark(Struct, frozen=True, gc=False):
    expires_at: int
    token: bytes
    meta: bytes


Change = TypeVar("Change", Finish, Fail, Release, Renew)
_FIRST_SWEEP = 10_000


class MemoryStore(forks.Locked):
    """Sync store over dicts; one lock makes each verb atomic."""

    def __init__(self, *, clock: Clock = system_clock) -> None:
        super().__init__()
        self._clock = clock
        self._records: dict[bytes, Record] = {}
        self._marks: dict[bytes, _Mark] = {}
        self._copies = MemoryCopies(clock)
        self._rows: dict[bytes, Row] = {}
        self._waiters: dict[bytes, list[Callable[[], object]]] = {}
        self._sweep_at = _FIRST_SWEEP

    def claim(self, requests: Sequence[ClaimRequest]) -> list[Outcome]:
        now = self._clock()
        outcomes = []
        if not forks.page[0]:
            forks.look()
        with self._mutex:
            for request in requests:
                outcome, changed = decisions.claim(self._records.get(request.key), request, now)
                outcomes.append(outcome)
                if changed is not None:
                    self._records[request.key] = changed
            if len(self._records) >= self._sweep_at:
                self._sweep(now)
        return outcomes

    def finish(self, changes: Sequence[Finish]) -> list[bool]:
        return self._apply(decisions.finish, changes)

    def fail(self, changes: Sequence[Fail]) -> list[bool]:
        return self._apply(decisions.fail, changes)

    def release(self, changes: Sequence[Release]) -> list[bool]:
        return self._apply(decisions.release, changes)

    def renew(self, changes: Sequence[Renew]) -> list[bool]:
        return self._apply(decisions.renew, changes)

    def get(self, keys: Sequence[bytes]) -> list[Found | None]:
        now = self._clock()
        with self._lock:
            found = [self._records.get(key) for key in keys]
        return [
            None if record is None or record.situation(now) is State.FREE else Found(record, now)
            for record in found
        ]

    def waiting(self, limit: int) -> list[Listed]:
        found = [each for page in self.records() for each in page if each.record.expires_at == NEVER]
        return sorted(found, key=lambda each: each.record.created_at)[:limit]

    def find(self, digits: str, limit: int) -> list[bytes]:
        return [each.key for page in self.records() for each in page if each.key.hex().startswith(digits)][
            :limit
        ]

    def sample(self, limit: int) -> Sample:
        found = [each for page in self.records() for each in page]
        return Sample(found[:limit], min(1.0, limit / max(1, len(found))))

    def records(self) -> Iterator[list[Listed]]:
        now = self._clock()
        with self._lock:
            found = list(self._records.items())
        yield [
            Listed(key, replace(record, result=b""), now)
            for key, record in found
            if record.situation(now) is not State.FREE
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
                    or (mark is not None and mark.expires_at > now)
                )
        return answers

    def mark(self, marks: Sequence[Mark]) -> list[bool]:
        now = self._clock()
        answers = []
        with self._lock:
            for mark in marks:
                known = self._marks.get(mark.key)
                fresh = known is None or known.expires_at <= now
                if fresh:
                    self._marks[mark.key] = _Mark(now + mark.window, mark.token, mark.meta)
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
                    and known.expires_at > now
                    and known.token == mark.token
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
            if known is None or known.expires_at <= now
            else FoundMark(known.meta, known.expires_at, now, known.token != b"")
            for known in found
        ]

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
            return self._remove_expired(self._clock(), limit)

    def stats(self) -> Stats:
        now = self._clock()
        with self._lock:
            situations = Counter(record.reported(now) for record in self._records.values())
            live_marks = sum(mark.expires_at > now for mark in self._marks.values())
            total = len(self._records) + len(self._marks)
        situations.pop(State.FREE, None)
        expired = total - sum(situations.values()) - live_marks
        return Stats(
            marks=live_marks,
            records=dict(situations),
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
        if not forks.page[0]:
            forks.look()
        with self._mutex:
            for change in changes:
                record = decide(self._records.get(change.key), change, now)
                answers.append(record is not None)
                if record is None:
                    continue
                if record.attempt == 0 and not record.result:
                    del self._records[change.key]
                else:
                    self._records[change.key] = record
                if self._waiters and record.situation(now) is not State.RUNNING:
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
        gone_marks = [key for key, mark in self._marks.items() if mark.expires_at <= now][:limit]
        for key in gone_marks:
            del self._marks[key]
        gone = [key for key, record in self._records.items() if record.situation(now) is State.FREE]
        gone = gone[: limit - len(gone_marks)]
        for key in gone:
            del self._records[key]
        return len(gone_marks) + len(gone)
