# Written by tools/twins.py from src/dupeproof/guards/_async/once.py; change that file instead.
"""Once: run once, replay after; and the lighter "seen before?"."""

import functools
import os
from collections.abc import Callable, Iterable
from types import TracebackType
from typing import Any, ParamSpec, Self, TypeVar

import msgspec

from dupeproof.core.codecs import Codec, JsonCodec, Unstorable
from dupeproof.core.durations import Duration, milliseconds
from dupeproof.core.events import Event, Kind, Listener, publish
from dupeproof.core.policy import OnAbandoned, OnBusy, OnStoreDown, Policy, make_policy
from dupeproof.core.protocols import SeenSet, Store
from dupeproof.core.records import Finish, Health, Mark, Release, Stats
from dupeproof.core.states import State
from dupeproof.errors import Busy, ConfigError, StoreUnavailable
from dupeproof.guards._sync.claims import Claim
from dupeproof.guards._sync.engine import Engine
from dupeproof.guards._sync.runtime import IS_ASYNC, settle
from dupeproof.guards.decorated import Guarded
from dupeproof.guards.entries import Entry, make_entry
from dupeproof.guards.functions import KnownReturns, check_kind
from dupeproof.guards.options import (
    Call,
    FingerprintSpec,
    Key,
    encode_meta,
    resolve_store,
    value_fingerprint,
)
from dupeproof.guards.results import DeadCall, Result
from dupeproof.keys.arguments import KeySpec
from dupeproof.keys.names import check_key, check_namespace, key_digest
from dupeproof.stores import open_store

P = ParamSpec("P")
R = TypeVar("R")
T = TypeVar("T")
_BATCH = 1_000


class Once:
    """Guards functions, calls and ids of one namespace in one store.

    `window` is how long a finished key is remembered, counted from its completion; `lease` how long a claim lasts
    without a sign of life from its owner. Opening connections is left to the first use.
    """

    def __init__(
        self,
        store: str | Store,
        *,
        namespace: str = "default",
        window: Duration = "24h",
        lease: Duration = "60s",
        on_busy: OnBusy = "raise",
        wait: Duration = "10s",
        on_abandoned: OnAbandoned = "rerun",
        max_attempts: int | None = None,
        on_dead: Callable[[DeadCall], object] | None = None,
        on_store_down: OnStoreDown = "raise",
        events: Iterable[Listener] = (),
        codec: Codec | None = None,
    ) -> None:
        self._policy = make_policy(
            namespace=check_namespace(namespace),
            window=window,
            lease=lease,
            on_busy=on_busy,
            wait=wait,
            on_abandoned=on_abandoned,
            max_attempts=max_attempts,
            on_store_down=on_store_down,
        )
        self._codec: Codec = JsonCodec() if codec is None else codec
        self._returns = KnownReturns(self._codec, is_async=IS_ASYNC)
        self._digest = key_digest(namespace)
        self._store = resolve_store(store, open_store, is_async=IS_ASYNC)
        self._owned = isinstance(store, str)
        self._seen_set = self._store if isinstance(self._store, SeenSet) else None
        self._engine = Engine(self._store, tuple(events), on_dead)

    # Seen before?

    def seen(self, key: Key, *, meta: object = None) -> bool:
        """Whether the key was seen inside the window; marks it if not, in the same step.

        The mark comes before your work, so a crash in between loses the message. Where that matters, use `run`.
        """
        mark = Mark(self._digest(check_key(key)), self._policy.terms.window, meta=encode_meta(meta))
        try:
            [fresh] = self._marks().mark([mark])
        except StoreUnavailable:
            self._tell(Kind.STORE_DOWN)
            if self._policy.run_when_down:
                return False
            raise
        self._tell(Kind.FRESH if fresh else Kind.SEEN, mark.key)
        return not fresh

    def fresh(self, items: Iterable[T], key: Callable[[T], Key] | None = None) -> list[T]:
        """The items not seen before, in order, each key once; marks them, a thousand in a round trip.

        If it raises `StoreUnavailable`, earlier thousands of the same call may be marked already.
        """
        chosen = list(items)
        window = self._policy.terms.window
        keys: Iterable[Any] = chosen if key is None else map(key, chosen)
        marks = [Mark(self._digest(check_key(each)), window) for each in keys]
        answers: list[bool] = []
        try:
            for start in range(0, len(marks), _BATCH):
                answers += self._marks().mark(marks[start : start + _BATCH])
        except StoreUnavailable:
            self._tell(Kind.STORE_DOWN)
            if not self._policy.run_when_down:
                raise
            answers += [True] * (len(marks) - len(answers))
        self._tell(Kind.FRESH, count=sum(answers))
        self._tell(Kind.SEEN, count=len(answers) - sum(answers))
        return [item for item, fresh in zip(chosen, answers, strict=True) if fresh]

    # Run once, replay after

    def __call__(
        self,
        key: KeySpec,
        *,
        name: str | None = None,
        fingerprint: FingerprintSpec = True,
        window: Duration | None = None,
        lease: Duration | None = None,
        codec: Codec | None = None,
    ) -> Callable[[Callable[P, R]], Guarded[P, R]]:
        """Decorate a function: the first call with a key runs it, later ones get its value."""
        policy = self._policy_with(window, lease)
        chosen = self._codec if codec is None else codec

        def decorate(fn: Callable[P, R]) -> Guarded[P, R]:
            check_kind(fn, is_async=IS_ASYNC)
            call = Call(fn, key, name, fingerprint, chosen)

            @functools.wraps(fn)
            def guarded(*args: P.args, **kwargs: P.kwargs) -> R:
                claim = self._claim(
                    call.key(args, kwargs),
                    call.fingerprint(args, kwargs),
                    policy=policy,
                    name=call.name,
                    codec=chosen,
                    returns=call.returns(),
                )
                return (_attempt(claim, fn, *args, **kwargs)).value

            guarded.key_for = call.key_for  # type: ignore[attr-defined]
            return guarded  # type: ignore[return-value]

        return decorate

    def run(self, key: Key, fn: Callable[P, R], *args: P.args, **kwargs: P.kwargs) -> R:
        """Call `fn` once for this key; give its value again to every later caller."""
        return (self.attempt(key, fn, *args, **kwargs)).value

    def attempt(self, key: Key, fn: Callable[P, R], *args: P.args, **kwargs: P.kwargs) -> Result[R]:
        """Like `run`, and tells whether the value is a replay and which attempt made it."""
        returns = self._returns(fn)
        compared = value_fingerprint([args, kwargs])
        return _attempt(self._claim(check_key(key), compared, returns=returns), fn, *args, **kwargs)

    def claim(self, key: Key, *, fingerprint: object = None, returns: Any = Any) -> Claim:
        """The inline form: a context manager that finishes on leaving, and fails on an exception.

        `returns` is the type the stored result is read back as.
        """
        self._codec.prepare(returns)
        return self._claim(check_key(key), value_fingerprint(fingerprint), returns=returns)

    # Looking and mending

    def known(self, keys: Iterable[Key]) -> list[bool]:
        """Whether each key is seen or done, in order. Looks only: a key not known now may be by the time you mark it."""
        digests = [self._digest(check_key(key)) for key in keys]
        found: list[bool] = []
        for start in range(0, len(digests), _BATCH):
            part = digests[start : start + _BATCH]
            records = self._store.get(part)
            marks = [None] * len(part) if self._seen_set is None else self._seen_set.marks(part)
            found += [
                mark is not None or (each is not None and each.record.state is State.DONE)
                for each, mark in zip(records, marks, strict=True)
            ]
        return found

    def get(self, key: Key) -> Entry | None:
        """The key as it stands; None when nothing is known of it."""
        digest = self._digest(check_key(key))
        [found] = self._store.get([digest])
        [mark] = [None] if self._seen_set is None else self._seen_set.marks([digest])
        return make_entry(self._policy.terms.namespace, found, mark)

    def forget(self, key: Key) -> bool:
        """Remove the key's record and mark, so that it is new. True when there was something."""
        [known] = self._store.forget([self._digest(check_key(key))])
        return known

    def resolve(self, key: Key, result: object = None) -> bool:
        """Close a held, abandoned, failed or dead key with this result; its former owner can no longer finish it.

        False when there is nothing to resolve. A key that is being worked on raises `Busy`.
        """
        digest = self._digest(check_key(key))
        try:
            data = self._codec.encode(result, Any)
        except Unstorable as exc:
            raise ConfigError(f"the result cannot be stored: {exc}") from exc
        token = self._unowned(digest)
        if token is None:
            return False
        window = self._policy.terms.window
        change = Finish(digest, token, window, data, self._codec.name, resolver=os.urandom(8))
        [resolved] = self._store.finish([change])
        return resolved

    def reopen(self, key: Key) -> bool:
        """Let a held, abandoned, failed or dead key run again, from its first attempt.

        Unlike `forget` it never removes a live claim: of two who reopen the same key, and run it, one wins.
        False when there is nothing to reopen. A key that is being worked on raises `Busy`.
        """
        digest = self._digest(check_key(key))
        token = self._unowned(digest)
        if token is None:
            return False
        [reopened] = self._store.release([Release(digest, token, self._policy.terms.window, reopen=True)])
        return reopened

    def _unowned(self, digest: bytes) -> bytes | None:
        """The token of an unfinished record nobody works on: who changes the record in one step shows it."""
        [found] = self._store.get([digest])
        if found is None or found.record.state is State.DONE:
            return None
        if found.record.situation(found.now) is State.RUNNING:
            left = (found.record.lease_until - found.now) / 1_000
            raise Busy("the key is being worked on; look again when its lease is over", retry_after=left)
        return found.record.token

    def purge(self) -> int:
        """Remove everything that has expired, in batches; how much that was."""
        gone = 0
        while True:
            batch = self._store.purge(_BATCH)
            gone += batch
            if batch < _BATCH:
                self._tell(Kind.PURGED, count=gone)
                return gone

    def stats(self) -> Stats:
        return self._store.stats()

    def check(self) -> Health:
        """Reach the store and make sure it can be used; raises `StoreUnavailable` if not."""
        return self._store.check()

    def close(self) -> None:
        """Stop renewing and give up connections. Closing twice is fine."""
        self._engine.heartbeat.stop()
        if self._owned:
            self._store.close()

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, exc: BaseException | None, traceback: TracebackType | None
    ) -> None:
        self.close()

    def _claim(
        self,
        key: str,
        fingerprint: bytes,
        *,
        returns: Any,
        policy: Policy | None = None,
        name: str = "",
        codec: Codec | None = None,
    ) -> Claim:
        return Claim(
            self._engine,
            self._policy if policy is None else policy,
            key=key,
            digest=self._digest(key),
            name=name,
            fingerprint=fingerprint,
            codec=self._codec if codec is None else codec,
            returns=returns,
        )

    def _policy_with(self, window: Duration | None, lease: Duration | None) -> Policy:
        terms = self._policy.terms
        if window is not None:
            terms = msgspec.structs.replace(terms, window=milliseconds(window, name="window"))
        if lease is not None:
            terms = msgspec.structs.replace(terms, lease=milliseconds(lease, name="lease"))
        return msgspec.structs.replace(self._policy, terms=terms)

    def _marks(self) -> SeenSet:
        if self._seen_set is not None:
            return self._seen_set
        raise ConfigError(
            f"{type(self._store).__name__} keeps no marks, so seen() and fresh() cannot be used with it"
        )

    def _tell(self, kind: Kind, key: bytes = b"", count: int = 1) -> None:
        if self._engine.listeners and count:
            event = Event(kind=kind, namespace=self._policy.terms.namespace, key=key.hex()[:12], count=count)
            publish(self._engine.listeners, event)


def _attempt(claim: Claim, fn: Callable[P, R], *args: P.args, **kwargs: P.kwargs) -> Result[R]:
    claim.acquire()
    if not claim.won:
        return Result(claim.result, replayed=True, attempt=claim.attempt)
    try:
        value: R = settle(fn(*args, **kwargs))
    except BaseException as exc:
        if claim.is_open:
            claim.leave(exc)
        raise
    claim.finish(value)
    return Result(value, replayed=False, attempt=claim.attempt)
