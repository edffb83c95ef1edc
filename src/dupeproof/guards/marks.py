# Written by tools/twins.py from src/dupeproof/guards/marks_async.py; change that file instead.
"""The marks of a guard: "seen before?" for one key or many, and what happens when the store is down."""

from collections.abc import Callable, Iterable, Sequence
from itertools import compress
from typing import TypeVar

from dupeproof.core.events import Emitters, Event, Kind, Listener, publish
from dupeproof.core.policy import Policy
from dupeproof.core.protocols import SeenSet, Store
from dupeproof.core.records import FoundMark, Mark
from dupeproof.errors import ConfigError, StoreUnavailable
from dupeproof.guards.options import Key, encode_meta
from dupeproof.keys.names import check_key, check_keys, key_digest

T = TypeVar("T")
_BATCH = 1_000


class Marking:
    def __init__(self, store: Store, policy: Policy, listeners: tuple[Listener, ...]) -> None:
        self._kind = type(store).__name__
        self._set = store if isinstance(store, SeenSet) else None
        self._namespace = policy.terms.namespace
        self.window = policy.terms.window
        self._run_when_down = policy.run_when_down
        self.listeners = listeners
        self._emitters = Emitters(listeners, self._namespace)
        self._digest = key_digest(self._namespace)

    def seen(self, key: Key, meta: object) -> bool:
        text = check_key(key)
        try:
            fresh = self._mark(text, encode_meta(meta))
        except StoreUnavailable:
            self._tell(Kind.STORE_DOWN)
            if self._run_when_down:
                return False
            raise
        tell = self._emitters[Kind.FRESH if fresh else Kind.SEEN]
        for count in tell.counts:
            next(count)
        if tell.listeners:
            tell(self._digest(text), 0)
        return not fresh

    def fresh(self, items: Iterable[T], key: Callable[[T], Key] | None) -> list[T]:
        chosen = list(items)
        # All keys are checked before the first one is marked, and only a batch of them at a time is made into marks.
        keys = check_keys(chosen if key is None else list(map(key, chosen)))
        answers: list[bool] = []
        try:
            for start in range(0, len(keys), _BATCH):
                answers += self._mark_many(keys[start : start + _BATCH])
        except StoreUnavailable:
            self._tell(Kind.STORE_DOWN)
            if not self._run_when_down:
                raise
            answers += [True] * (len(keys) - len(answers))
        if self.listeners:
            count = sum(answers)
            self._tell(Kind.FRESH, count=count)
            self._tell(Kind.SEEN, count=len(answers) - count)
        return chosen if all(answers) else list(compress(chosen, answers))

    def find(self, keys: Sequence[str]) -> Sequence[FoundMark | None]:
        if self._set is None:
            return [None] * len(keys)
        return self._set.marks(list(map(self._digest, keys)))

    def _mark(self, key: str, meta: bytes) -> bool:
        [fresh] = self._marks().mark([Mark(self._digest(key), self.window, b"", meta)])
        return fresh

    def _mark_many(self, keys: list[str]) -> list[bool]:
        return self._marks().mark([Mark(self._digest(key), self.window) for key in keys])

    def _marks(self) -> SeenSet:
        if self._set is not None:
            return self._set
        raise ConfigError(f"{self._kind} keeps no marks, so seen() and fresh() cannot be used with it")

    def _tell(self, kind: Kind, count: int = 1) -> None:
        if self.listeners and count:
            publish(self.listeners, Event(kind=kind, namespace=self._namespace, count=count))
