"""The store in a dict: for tests, single processes, and as the plainest reading of the contract.

`memory://` is private to whoever opens it; `memory://name` is shared by everyone in the process who opens that
name, sync and async alike. Nothing survives the process.
"""

import asyncio
import platform
import threading
from collections import Counter
from collections.abc import Callable, Sequence
from typing import TypeVar

from dupeproof.core import transitions
from dupeproof.core.clock import Clock, system_clock
from dupeproof.core.outcomes import Outcome
from dupeproof.core.records import (
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
)
from dupeproof.core.sequences import Number, Row, SequenceStats, Verdict, decide
from dupeproof.core.states import State
from dupeproof.errors import ConfigError
from dupeproof.stores.urls import StoreURL

Change = TypeVar("Change", Finish, Fail, Release, Renew)
_FIRST_SWEEP = 10_000


class MemoryStore:
    """Sync store over dicts; one lock makes each verb atomic."""

    def __init__(self, *, clock: Clock = system_clock) -> None:
        self._clock = clock
        self._lock = threading.Lock()
        self._records: dict[bytes, Record] = {}
        self._marks: dict[bytes, tuple[int, Mark]] = {}
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
            self._sweep_if_grown(now)
        return outcomes

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
            self._sweep_if_grown(now)
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
            None if known is None or known[0] <= now else FoundMark(known[1].meta, known[0])
            for known in found
        ]

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
            situations = Counter(record.situation(now) for record in self._records.values())
            live_marks = sum(expires_at > now for expires_at, _ in self._marks.values())
            total = len(self._records) + len(self._marks)
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
                if record.state is not State.RUNNING:
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

    def _sweep_if_grown(self, now: int) -> None:
        """Keep memory within twice what is live: sweep when the dicts have doubled, so each id pays once."""
        if len(self._records) + len(self._marks) >= self._sweep_at:
            self._remove_expired(now, limit=len(self._records) + len(self._marks))
            self._sweep_at = max(_FIRST_SWEEP, 2 * (len(self._records) + len(self._marks)))

    def _remove_expired(self, now: int, limit: int) -> int:
        gone_marks = [key for key, (expires_at, _) in self._marks.items() if expires_at <= now][:limit]
        for key in gone_marks:
            del self._marks[key]
        gone = [key for key, record in self._records.items() if record.situation(now) is State.FREE]
        gone = gone[: limit - len(gone_marks)]
        for key in gone:
            del self._records[key]
        return len(gone_marks) + len(gone)


class AsyncMemoryStore:
    """The same dicts for tasks: no verb waits for anything, so none needs more than the lock."""

    def __init__(self, memory: MemoryStore | None = None) -> None:
        self._memory = MemoryStore() if memory is None else memory

    async def claim(self, requests: Sequence[ClaimRequest]) -> list[Outcome]:
        return self._memory.claim(requests)

    async def finish(self, changes: Sequence[Finish]) -> list[bool]:
        return self._memory.finish(changes)

    async def fail(self, changes: Sequence[Fail]) -> list[bool]:
        return self._memory.fail(changes)

    async def release(self, changes: Sequence[Release]) -> list[bool]:
        return self._memory.release(changes)

    async def renew(self, changes: Sequence[Renew]) -> list[bool]:
        return self._memory.renew(changes)

    async def get(self, keys: Sequence[bytes]) -> list[Found | None]:
        return self._memory.get(keys)

    async def forget(self, keys: Sequence[bytes]) -> list[bool]:
        return self._memory.forget(keys)

    async def mark(self, marks: Sequence[Mark]) -> list[bool]:
        return self._memory.mark(marks)

    async def unmark(self, marks: Sequence[Mark]) -> list[bool]:
        return self._memory.unmark(marks)

    async def marks(self, keys: Sequence[bytes]) -> list[FoundMark | None]:
        return self._memory.marks(keys)

    async def advance(self, numbers: Sequence[Number]) -> list[Verdict]:
        return self._memory.advance(numbers)

    async def retire(self, keys: Sequence[bytes]) -> list[bool]:
        return self._memory.retire(keys)

    async def sequences(self) -> SequenceStats:
        return self._memory.sequences()

    async def purge(self, limit: int) -> int:
        return self._memory.purge(limit)

    async def stats(self) -> Stats:
        return self._memory.stats()

    async def check(self) -> Health:
        return self._memory.check()

    async def close(self) -> None:
        self._memory.close()

    async def wait(self, key: bytes, seconds: float) -> None:
        loop = asyncio.get_running_loop()
        changed = asyncio.Event()

        def wake() -> None:
            if not loop.is_closed():
                loop.call_soon_threadsafe(changed.set)

        if self._memory.watch(key, wake):
            try:
                async with asyncio.timeout(seconds):
                    await changed.wait()
            except TimeoutError:
                return
            finally:
                self._memory.unwatch(key, wake)


_shared: dict[str, MemoryStore] = {}


def _memory(url: StoreURL) -> MemoryStore:
    url.take(())
    name = url.parts.netloc + url.parts.path
    if not name:
        return MemoryStore()
    if name.startswith("/"):
        raise ConfigError(
            "memory:///… has no meaning; write memory:// for a private store, memory://name to share one"
        )
    return _shared.setdefault(name, MemoryStore())


def open_sync(url: StoreURL) -> MemoryStore:
    return _memory(url)


def open_async(url: StoreURL) -> AsyncMemoryStore:
    return AsyncMemoryStore(_memory(url))
