# Written by tools/twins.py from src/dupeproof/filters/compact_async.py; change that file instead.
"""CompactSeen: which ids came, in Redis, in about ten bytes each."""

from collections.abc import Callable, Iterable, Sequence
from types import TracebackType
from typing import Any, Self, TypeVar

from dupeproof import defaults
from dupeproof.core.durations import Duration, milliseconds
from dupeproof.filters import compact_layout
from dupeproof.filters.options import MOST_IDS, whole
from dupeproof.filters.redis import redis_store
from dupeproof.filters.stats import FilterStats
from dupeproof.keys.names import Key, check_key, check_keys, check_namespace, key_digest
from dupeproof.stores.clients import StoreClient
from dupeproof.stores.redis import RedisStore
from dupeproof.stores.redis.layout import TAGS
from dupeproof.stores.redis.resp import pack

T = TypeVar("T")
_BATCH = 1_000
_SAMPLE = 256


class CompactSeen:
    """`seen` and `fresh` as `Once` has them, with a tenth of the memory and nothing but the answer kept.

    An id is remembered for at least `window`, at most one and a half. It counts as known when 64 bits of its digest
    meet those of another in the same small set: about one new id in 10**16, which `stats` computes from the current size.
    `expected` is the number of ids in a window, for the first one; after that it goes by what came. The window may be
    changed while others still use the former one: a mark lasts as long as its maker's, or longer.

    Each id is decided in one step inside Redis, by its clock. As with `Once.seen` the mark comes before your work,
    and a call whose reply was lost raises rather than being repeated.
    """

    def __init__(
        self,
        store: str | StoreClient | RedisStore,
        *,
        namespace: str = defaults.NAMESPACE,
        window: Duration = defaults.WINDOW,
        expected: int = 100_000,
    ) -> None:
        self._digest = key_digest(check_namespace(namespace))
        self._namespace = self._digest("")[:8]
        self._window = milliseconds(window, name="window")
        self._expected = whole(expected, "expected", most=MOST_IDS)
        self._owned = isinstance(store, str)
        self._store = redis_store(store)
        self._client = self._store.client
        # On one server all ids share a book; on Cluster there is one per hash tag.
        self._tags = TAGS if self._client.target.kind == "cluster" else TAGS[:1]
        head = [b"%d" % self._window, b"%d" % -(-self._expected // len(self._tags))]
        self._heads = {verb: [verb.encode(), *head] for verb in ("add", "look", "forget")}

    def seen(self, key: Key) -> bool:
        """Whether the id was seen inside the window; marks it if not, in the same step."""
        [known] = self._ask("add", [check_key(key)])
        return known

    def fresh(self, items: Iterable[T], key: Callable[[T], Key] | None = None) -> list[T]:
        """The items not seen before, in order, each id once; marks them, a thousand in a round trip.

        If it raises `StoreUnavailable`, earlier thousands of the same call may be marked already.
        """
        chosen = list(items)
        keys: Iterable[Any] = chosen if key is None else map(key, chosen)
        answers = self._ask("add", check_keys(keys))
        return [item for item, known in zip(chosen, answers, strict=True) if not known]

    def known(self, keys: Iterable[Key]) -> list[bool]:
        """Whether each id was seen, in order. Looks only."""
        return self._ask("look", check_keys(keys))

    def forget(self, key: Key) -> bool:
        """Make the id new again. True when it was known."""
        [known] = self._ask("forget", [check_key(key)])
        return known

    def stats(self) -> FilterStats:
        """What is remembered, going by some of the sets; their sizes are as Redis gives them."""
        keys = [compact_layout.book_key(tag, self._namespace) for tag in self._tags]
        books = self._client.send([pack(b"GET", key) for key in keys], list(self._tags))
        added, size, fullest, most = 0.0, 0.0, 0.0, 0
        for tag, key, book in zip(self._tags, keys, books, strict=True):
            generations = compact_layout.generations(book or b"", key)
            samples = [self._sample(tag, each) for each in generations]
            added += sum(
                each.sets * sample.members for each, sample in zip(generations, samples, strict=True)
            )
            size += sum(each.sets * sample.bytes for each, sample in zip(generations, samples, strict=True))
            fullest = max(fullest, sum(sample.members for sample in samples))
            most = max(most, len(generations))
        return FilterStats(
            capacity=self._expected,
            added=round(added),
            bytes=round(size),
            stated_error_rate=compact_layout.STATED_RATE,
            estimated_error_rate=compact_layout.collision_rate(fullest),
            generations=most,
        )

    def _sample(self, tag: int, generation: compact_layout.Generation) -> compact_layout.Sample:
        names = [generation.set_name(number) for number in range(min(generation.sets, _SAMPLE))]
        commands = [pack(*verb, name) for verb in ((b"SCARD",), (b"MEMORY", b"USAGE")) for name in names]
        answers = self._client.send(commands, [tag] * len(commands))
        members, sizes = answers[: len(names)], answers[len(names) :]
        return compact_layout.Sample(sum(members) / len(names), sum(each or 0 for each in sizes) / len(names))

    def close(self) -> None:
        if self._owned:
            self._store.close()

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, exc: BaseException | None, traceback: TracebackType | None
    ) -> None:
        self.close()

    def _ask(self, verb: str, texts: Sequence[str]) -> list[bool]:
        answers: list[bool] = []
        for start in range(0, len(texts), _BATCH):
            answers += self._round_trip(verb, texts[start : start + _BATCH])
        return answers

    def _round_trip(self, verb: str, texts: Sequence[str]) -> list[bool]:
        digests = [self._digest(text) for text in texts]
        groups: dict[int, list[int]] = {}
        if len(self._tags) == 1:
            groups[self._tags[0]] = list(range(len(digests)))
        else:
            for index, digest in enumerate(digests):
                groups.setdefault(compact_layout.tag_of(digest), []).append(index)
        running = compact_layout.compact_script()
        parts = [
            (
                [compact_layout.book_key(tag, self._namespace)],
                [*self._heads[verb], *(compact_layout.argument(digests[index]) for index in members)],
            )
            for tag, members in groups.items()
        ]
        # Not repeated after a lost reply: the second try would find the first one's mark and call it a duplicate.
        batches = self._client.send(
            [running.call(*part) for part in parts],
            list(groups),
            repeat=verb == "look",
            in_full=lambda n: running.in_full(*parts[n]),
        )
        answers = [False] * len(texts)
        for members, batch in zip(groups.values(), batches, strict=True):
            for index, answer in zip(members, batch, strict=True):
                answers[index] = answer == 1
        return answers
