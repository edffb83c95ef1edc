"""AsyncOnce: run once, replay after; and the lighter "seen before?"."""

import functools
import os
from collections import Counter, deque
from collections.abc import AsyncIterator, Awaitable, Callable, Coroutine, Iterable, Sequence
from itertools import compress
from types import TracebackType
from typing import Any, ParamSpec, Self, TypeVar

from dupeproof import defaults
from dupeproof.core.codecs import Codec, JsonCodec, Unstorable
from dupeproof.core.durations import Duration, milliseconds
from dupeproof.core.events import (
    OF_MARKS,
    Emitters,
    Event,
    Kind,
    Listener,
    as_listeners,
    count_from_zero,
    publish,
    store_observers,
)
from dupeproof.core.policy import Errors, Lookup, OnAbandoned, OnBusy, OnError, OnStoreDown, make_policy
from dupeproof.core.protocols import AsyncListable, AsyncSeenSet, AsyncStore, ability
from dupeproof.core.records import Finish, FoundMark, Health, Mark, Record, Release, Stats
from dupeproof.core.states import State
from dupeproof.errors import Busy, ConfigError, StoreUnavailable
from dupeproof.guards.claims_async import AsyncClaim, AsyncClaims
from dupeproof.guards.engine_async import AsyncEngine
from dupeproof.guards.functions import Guarded, KnownReturns, check_kind
from dupeproof.guards.listings import MOST_WAITING, Listing, check_digits
from dupeproof.guards.lookups import Settled, check_lookup
from dupeproof.guards.many_async import attempt_many
from dupeproof.guards.options import (
    Call,
    Key,
    batches,
    encode_meta,
    make_cache,
    resolve_store,
    value_fingerprint,
)
from dupeproof.guards.results import DeadCall, Entry, Result, make_entry
from dupeproof.guards.runtime_async import IS_ASYNC
from dupeproof.keys.arguments import KeySpec
from dupeproof.keys.fingerprints import FingerprintSpec, call_digest
from dupeproof.keys.names import check_key, check_keys, check_namespace, key_digest
from dupeproof.stores import open_async_store
from dupeproof.stores.clients import StoreClient

P = ParamSpec("P")
R = TypeVar("R")
T = TypeVar("T")
_BATCH = 1_000
_MOST_FOUND = 10


class AsyncOnce:
    """Guards functions, calls and ids of one namespace in one store.

    `window` is how long a finished key is remembered, counted from its completion; `lease` how long a claim lasts
    without a sign of life from its owner. Opening connections is left to the first use.

    With `cache`, that many finished records are kept in this process, and their replays need no round trip. A `forget`
    through another guard or process is then noticed after `cache_for` at the latest.
    """

    def __init__(
        self,
        store: str | StoreClient | AsyncStore,
        *,
        namespace: str = defaults.NAMESPACE,
        window: Duration = defaults.WINDOW,
        lease: Duration = defaults.LEASE,
        on_busy: OnBusy = "raise",
        wait: Duration = defaults.BUSY_WAIT,
        on_abandoned: OnAbandoned = "rerun",
        max_attempts: int | None = None,
        on_dead: Callable[[DeadCall], object] | None = None,
        on_store_down: OnStoreDown = "raise",
        on_error: OnError | None = None,
        hold_on: Errors | None = None,
        settle: Lookup | None = None,
        keep_keys: bool = False,
        events: Iterable[Listener] = (),
        codec: Codec | None = None,
        cache: int = 0,
        cache_for: Duration = defaults.CACHE_FOR,
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
            on_error=on_error,
            hold_on=hold_on,
            keep_keys=keep_keys,
            settle=settle,
        )
        check_lookup(settle, is_async=IS_ASYNC)
        self._codec: Codec = JsonCodec() if codec is None else codec
        self._returns = KnownReturns(self._codec, is_async=IS_ASYNC)
        self._digest = key_digest(namespace)
        listeners = as_listeners(events)
        opener = functools.partial(open_async_store, observers=store_observers(listeners))
        self._store = resolve_store(store, opener, is_async=IS_ASYNC)
        self._owned = isinstance(store, str)
        self._engine = AsyncEngine(self._store, listeners, on_dead, make_cache(cache, cache_for))
        self._seen_set = self._store if isinstance(self._store, AsyncSeenSet) else None
        count_from_zero(listeners, (*OF_MARKS, Kind.PURGED), namespace)
        self._emitters = Emitters(listeners, namespace)
        self._claims = AsyncClaims(self._engine, self._policy, self._digest, self._codec)

    @property
    def namespace(self) -> str:
        return self._policy.terms.namespace

    @property
    def codec(self) -> Codec:
        """How results are stored."""
        return self._codec

    # Seen before?

    async def seen(self, key: Key, *, meta: object = None) -> bool:
        """Whether the key was seen inside the window; marks it if not, in the same step.

        The mark comes before your work, so a crash in between loses the message. Where that matters, use `run`.
        """
        digest = self._digest(check_key(key))
        mark = Mark(digest, self._policy.terms.window, b"", encode_meta(meta))
        try:
            [fresh] = await self._marks().mark([mark])
        except StoreUnavailable:
            self._emit(Kind.STORE_DOWN)
            if self._policy.run_when_down:
                return False
            raise
        emit = self._emitters[Kind.FRESH if fresh else Kind.SEEN]
        for count in emit.counts:
            next(count)
        if emit.listeners:
            emit(digest, 0)
        return not fresh

    async def fresh(self, items: Iterable[T], key: Callable[[T], Key] | None = None) -> list[T]:
        """The items not seen before, in order, each key once; marks them, a thousand in a round trip.

        If it raises `StoreUnavailable`, earlier thousands of the same call may be marked already.
        """
        chosen = list(items)
        window, digest, marks = self._policy.terms.window, self._digest, self._marks()
        # All keys are checked before the first one is marked, and only a batch of them at a time is made into marks.
        keys = check_keys(chosen if key is None else list(map(key, chosen)))
        answers: list[bool] = []
        try:
            for part in batches(keys, _BATCH):
                answers += await marks.mark([Mark(digest(each), window) for each in part])
        except StoreUnavailable:
            self._emit(Kind.STORE_DOWN)
            if not self._policy.run_when_down:
                raise
            answers += [True] * (len(keys) - len(answers))
        if self._engine.listeners:
            count = sum(answers)
            self._emit(Kind.FRESH, count)
            self._emit(Kind.SEEN, len(answers) - count)
        return chosen if all(answers) else list(compress(chosen, answers))

    def _marks(self) -> AsyncSeenSet:
        if self._seen_set is None:
            kind = type(self._store).__name__
            raise ConfigError(f"{kind} keeps no marks, so seen() and fresh() cannot be used with it")
        return self._seen_set

    def _emit(self, kind: Kind, count: int = 1) -> None:
        if count:
            event = Event(kind=kind, namespace=self._policy.terms.namespace, count=count)
            publish(self._engine.listeners, event)

    # Run once, replay after

    def __call__(
        self,
        key: KeySpec,
        *,
        name: str | None = None,
        fingerprint: FingerprintSpec = True,
        window: Duration | None = None,
        lease: Duration | None = None,
        on_error: OnError | None = None,
        hold_on: Errors | None = None,
        settle: Lookup | None = None,
        keep_keys: bool | None = None,
        codec: Codec | None = None,
    ) -> Callable[[Callable[P, Awaitable[R]]], Guarded[P, Coroutine[Any, Any, R]]]:
        """Decorate a function: the first call with a key runs it, later ones get its value.

        What is left out is as the guard has it.
        """
        chosen = self._codec if codec is None else codec

        def decorate(fn: Callable[P, Awaitable[R]]) -> Guarded[P, Coroutine[Any, Any, R]]:
            check_kind(fn, is_async=IS_ASYNC)
            call = Call(fn, key, name, fingerprint, chosen)
            policy = self._policy.changed(
                name=call.name,
                window=window,
                lease=lease,
                on_error=on_error,
                hold_on=hold_on,
                settle=settle,
                keep_keys=keep_keys,
            )
            check_lookup(policy.settle, is_async=IS_ASYNC, fn=fn)
            fingerprint_of, key_of, returns = call.fingerprint, call.key, call.returns
            claims = AsyncClaims(self._engine, policy, self._digest, chosen, call.name)

            @functools.wraps(fn)
            async def guarded(*args: P.args, **kwargs: P.kwargs) -> R:
                compared = fingerprint_of(args, kwargs)
                kind = returns.type if returns.is_known else returns.resolve()
                return await AsyncClaim(claims, key_of(args, kwargs), kind, compared).run(fn, args, kwargs)

            guarded.key_for = call.key_for  # type: ignore[attr-defined]
            return guarded  # type: ignore[return-value]

        return decorate

    async def run(self, key: Key, fn: Callable[P, Awaitable[R]], *args: P.args, **kwargs: P.kwargs) -> R:
        """Call `fn` once for this key; give its value again to every later caller."""
        compared = call_digest(args, kwargs)
        return await AsyncClaim(self._claims, check_key(key), self._returns(fn), compared).run(
            fn, args, kwargs
        )

    async def attempt(
        self, key: Key, fn: Callable[P, Awaitable[R]], *args: P.args, **kwargs: P.kwargs
    ) -> Result[R]:
        """Like `run`, and says whether the value is a replay and which attempt made it."""
        compared = call_digest(args, kwargs)
        claim = AsyncClaim(self._claims, check_key(key), self._returns(fn), compared)
        value = await claim.run(fn, args, kwargs)
        return Result(value, replayed=claim.done, attempt=claim.attempt)

    async def run_many(
        self,
        items: Iterable[T],
        fn: Callable[[T], Awaitable[R]],
        *,
        key: Callable[[T], Key] | None = None,
        fingerprint: bool = True,
        batch: int = 100,
    ) -> list[R]:
        """Call `fn` for each item as `run(key(item), fn, item)` would, a batch of them claimed and finished in one go.

        The values come back in order. If some items failed, or their keys could not be had, the others are done all
        the same, and an `ExceptionGroup` has their errors; the values are there on the next call. A crash may repeat what
        was done since the batch began, or in the last second of it: choose `batch` by how much of that you can bear.
        """
        results = await self.attempt_many(items, fn, key=key, fingerprint=fingerprint, batch=batch)
        errors = [result.error for result in results if result.error is not None]
        if errors:
            raise ExceptionGroup(f"{len(errors)} of {len(results)} items have no value", errors)
        return [result.value for result in results]

    async def attempt_many(
        self,
        items: Iterable[T],
        fn: Callable[[T], Awaitable[R]],
        *,
        key: Callable[[T], Key] | None = None,
        fingerprint: bool = True,
        batch: int = 100,
    ) -> list[Result[R]]:
        """Like `run_many`, with a result for each item: `.value` and `.replayed`, or its `.error`."""
        returns = self._returns(fn)
        results: list[Result[R]] = []
        for chosen in batches(items, batch):
            keys = check_keys(chosen if key is None else list(map(key, chosen)))
            compared = [call_digest((item,), {}) if fingerprint else b"" for item in chosen]
            results += await attempt_many(self._claims, keys, returns, compared, fn, chosen)
        return results

    def claim(self, key: Key, *, fingerprint: object = None, returns: Any = Any) -> AsyncClaim:
        """The inline form: a context manager that finishes on leaving, and fails on an exception.

        `returns` is the type the stored result is read back as.
        """
        self._codec.prepare(returns)
        return AsyncClaim(self._claims, check_key(key), returns, value_fingerprint(fingerprint))

    def claims(self, *, name: str, codec: Codec) -> AsyncClaims:
        """For layers built on this guard: claims in its namespace, on its terms, with results in their own codec."""
        return AsyncClaims(self._engine, self._policy, self._digest, codec, name, step_codec=self._codec)

    # Looking and mending

    async def known(self, keys: Iterable[Key]) -> list[bool]:
        """Whether each key is seen or done, in order. Looks only: a key not known now may be by the time you mark it."""
        found: list[bool] = []
        for part in batches(check_keys(keys), _BATCH):
            digests = list(map(self._digest, part))
            records = await self._store.get(digests)
            marks = await self._found_marks(digests)
            found += [
                mark is not None or (each is not None and each.record.is_finished)
                for each, mark in zip(records, marks, strict=True)
            ]
        return found

    async def get(self, key: Key | Entry) -> Entry | None:
        """The key as it stands; None when nothing is known of it."""
        digest = self._digest_of(key)
        [found] = await self._store.get([digest])
        [mark] = await self._found_marks([digest])
        return make_entry(self._policy.terms.namespace, digest, found, mark)

    async def find(self, digits: str) -> list[Entry]:
        """The keys whose digest begins with these hexadecimal digits, eight at least, as logs and errors show them.

        Of any namespace. At most ten.
        """
        digests = await self._listable().find(check_digits(digits), _MOST_FOUND)
        pairs = zip(digests, await self._store.get(digests), strict=True)
        return [entry for digest, each in pairs if (entry := make_entry("", digest, each, None)) is not None]

    def entries(
        self,
        state: str = "held",
        *,
        namespace: str | None = None,
        limit: int | None = 100,
        after: Entry | None = None,
        newest_first: bool = False,
        progress: Callable[[int], object] | None = None,
    ) -> AsyncIterator[Entry]:
        """The keys in this state, the oldest first: held, dead, failed, running or abandoned.

        `namespace` is this guard's own unless given; "*" is every one. `after` is the last entry of the page before.
        Held and dead keys are found by an index, so the size of the store does not count. The others are found by a walk
        over all records; `progress` is called with how many were looked at.
        """
        wanted = Listing(
            state, namespace or self.namespace, limit=limit, after=after, newest_first=newest_first
        )
        return self._entries(wanted, self._listable(), progress)

    async def _entries(
        self, wanted: Listing, listable: AsyncListable, progress: Callable[[int], object] | None
    ) -> AsyncIterator[Entry]:
        if wanted.is_indexed:
            wanted.add(await listable.waiting(MOST_WAITING))
        else:
            async for page in listable.records():
                wanted.add(page)
                if progress is not None:
                    progress(wanted.looked_at)
        found = deque(wanted.entries())
        while found:
            yield found.popleft()

    async def settle(
        self,
        lookup: Lookup,
        *,
        namespace: str | None = None,
        name: str | None = None,
        limit: int | None = None,
    ) -> Settled:
        """Ask `lookup(entry)` about every held key, and settle what it knows: done, or free to run again.

        `name` asks only about the keys of the function with that name, as entries show it.

        Each is owned while it is asked about, so that nobody runs it or asks beside. What the lookup does not know, and what
        it fails on, stays held.
        """
        check_lookup(lookup, is_async=IS_ASYNC)
        tally: Counter[str] = Counter()
        async for entry in self.entries("held", namespace=namespace, limit=limit):
            if name is not None and entry.name != name:
                continue
            claim = AsyncClaim(self._claims, "", Any, b"")
            tally[await claim.settle_with(lookup, entry)] += 1
        tally.pop("gone", None)
        return Settled(**tally)

    def _listable(self) -> AsyncListable:
        found = ability(self._store, AsyncListable)  # type: ignore[type-abstract]
        if found is None:
            raise ConfigError(f"{type(self._store).__name__} cannot list its records")
        return found

    def _digest_of(self, key: Key | Entry) -> bytes:
        return bytes.fromhex(key.digest) if isinstance(key, Entry) else self._digest(check_key(key))

    async def _found_marks(self, digests: list[bytes]) -> Sequence[FoundMark | None]:
        return [None] * len(digests) if self._seen_set is None else await self._seen_set.marks(digests)

    async def forget(self, key: Key | Entry) -> bool:
        """Remove the key's record and mark, so that it is new. True when there was something."""
        digest = self._digest_of(key)
        [known] = await self._store.forget([digest])
        self._engine.drop(digest)
        return known

    async def resolve(
        self, key: Key | Entry, result: object = None, *, window: Duration | None = None
    ) -> bool:
        """Close a held, abandoned, failed or dead key with this result; its former owner can no longer finish it.

        It is remembered for the window of the guard that claimed it, unless `window` is given. A result that no caller has
        been given yet is replaced (`Entry.correctable`). False when there is nothing to resolve. A key that is being worked
        on raises `Busy`.
        """
        digest = self._digest_of(key)
        try:
            data = self._codec.encode(result, Any)
        except Unstorable as exc:
            raise ConfigError(f"the result cannot be stored: {exc}") from exc
        record = await self._unowned(digest)
        if record is None:
            return False
        kept = record.window or self._policy.terms.window
        lasting = kept if window is None else milliseconds(window, name="window")
        change = Finish(digest, record.token, lasting, data, self._codec.name, resolver=os.urandom(8))
        [resolved] = await self._store.finish([change])
        self._engine.drop(digest)
        return resolved

    async def reopen(self, key: Key | Entry) -> bool:
        """Let a held, abandoned, failed or dead key run again, from its first attempt.

        Unlike `forget` it never removes a live claim: of two who reopen the same key, and run it, one wins.
        False when there is nothing to reopen. A key that is being worked on raises `Busy`.
        """
        digest = self._digest_of(key)
        record = await self._unowned(digest)
        if record is None or record.state is State.RESOLVED:
            return False
        window = record.window or self._policy.terms.window
        [reopened] = await self._store.release([Release(digest, record.token, window, reopen=True)])
        return reopened

    async def _unowned(self, digest: bytes) -> Record | None:
        """An unfinished record nobody works on. Who changes it in one step shows its token."""
        [found] = await self._store.get([digest])
        if found is None or found.record.state is State.DONE:
            return None
        if found.record.situation(found.now) is State.RUNNING:
            left = (found.record.lease_until - found.now) / 1_000
            raise Busy("the key is being worked on; look again when its lease is over", retry_after=left)
        return found.record

    async def purge(self) -> int:
        """Remove everything that has expired, in batches; how much that was."""
        gone = 0
        while True:
            batch = await self._store.purge(_BATCH)
            gone += batch
            if batch < _BATCH:
                if gone:
                    event = Event(kind=Kind.PURGED, namespace=self._policy.terms.namespace, count=gone)
                    publish(self._engine.listeners, event)
                return gone

    async def stats(self) -> Stats:
        return await self._store.stats()

    async def check(self) -> Health:
        """Reach the store and make sure it can be used; raises `StoreUnavailable` if not."""
        return await self._store.check()

    async def close(self) -> None:
        """Stop renewing and give up connections. Closing twice is fine."""
        await self._engine.stop()
        if self._owned:
            await self._store.close()

    async def __aenter__(self) -> Self:
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, exc: BaseException | None, traceback: TracebackType | None
    ) -> None:
        await self.close()
