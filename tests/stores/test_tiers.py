"""A fast tier in front of a durable one: faster, and never another answer than the durable one's own."""

import time
import types

import pytest
import redis
from hypothesis import given, settings
from hypothesis import strategies as st

from dupeproof import AsyncOnce, Once
from dupeproof.core import decisions
from dupeproof.core.protocols import KeepsCopies, ability
from dupeproof.core.records import ClaimRequest, Fail, Finish, Mark, Release, Reservation, Terms
from dupeproof.errors import ConfigError, StoreUnavailable
from dupeproof.keys import key_digest
from dupeproof.stores import copies, open_store
from dupeproof.stores import tiered_async as tiered_module
from dupeproof.stores.memory import AsyncMemoryStore, MemoryStore
from dupeproof.stores.memory.copies import MemoryCopies
from dupeproof.stores.sqlite import SQLiteStore
from dupeproof.stores.tiered import TieredStore
from dupeproof.stores.tiered_async import AsyncTieredStore

# Under any interleaving

KEYS = [bytes([n]) * 16 for n in range(2)]
FINGERPRINTS = [b"", b"one" + bytes(13), b"two" + bytes(13)]


@types.coroutine
def turn():
    """Let the test choose who goes on."""
    yield


class Clock:
    now = 1_000_000

    def __call__(self):
        return self.now


class World:
    """Callers that are stopped before and after each step of each tier; any of them may never go on."""

    def __init__(self):
        self.clock = Clock()
        self.memory = MemoryStore(clock=self.clock)
        self.copies = MemoryCopies(self.clock)
        self.down = False
        self.callers = []
        self.tokens = 0
        self.windows = {}
        """Of the finish of each token: one that is sent again is the same again."""
        self.answered_fast = 0
        self.tiers = AsyncTieredStore(FastTier(self), SteppingStore(self.memory))

    @property
    def forgetting(self):
        return any(caller.__name__ == "forget" for caller in self.callers)

    def start(self, steps, verb, *items):
        self.callers.append(getattr(self.tiers, verb)(list(items)))
        self.go_on(-1, steps)

    def go_on(self, number, steps):
        if not self.callers:
            return
        caller = self.callers[number % len(self.callers)]
        try:
            for _ in range(steps):
                caller.send(None)
                self.check()
        except (StopIteration, StoreUnavailable):
            self.callers.remove(caller)

    def die(self, number):
        if self.callers:
            self.callers.pop(number % len(self.callers)).close()

    def token(self):
        self.tokens += 1
        return self.tokens.to_bytes(8, "big")

    def check(self):
        """Whatever could be read from the copies is what the durable tier would say at this very moment."""
        for key, place in self.copies._places.items():
            if place.kept is None or place.until <= self.clock.now:
                continue
            digest, kind = key[:-1], key[-1:]
            if kind == b"s":
                assert self.memory.marks([digest]) != [None]
                continue
            [found] = self.memory.get([digest])
            for fingerprint in FINGERPRINTS:
                request = ClaimRequest(digest, b"somebody", TERMS[0], fingerprint)
                expected, _ = decisions.claim(found and found.record, request, self.clock())
                assert copies.answer(place.kept, request) == expected


class SteppingStore(AsyncMemoryStore):
    def __getattribute__(self, name):
        verb = super().__getattribute__(name)
        if name not in {"claim", "finish", "fail", "release", "forget", "mark", "marks", "get"}:
            return verb

        async def stepping(*args):
            await turn()
            answer = await verb(*args)
            await turn()
            return answer

        return stepping


class FastTier:
    def __init__(self, world):
        self._world = world

    def copies(self):
        return self

    async def close(self):
        pass

    def __getattr__(self, name):
        async def stepping(items, *more):
            await turn()
            if self._world.down:
                raise StoreUnavailable("down")
            answer = getattr(self._world.copies, name)(items, *more)
            if name == "reserve":
                self._world.answered_fast += sum(kept is not None for kept in answer)
            await turn()
            if self._world.down:
                raise StoreUnavailable("down after it was done")
            return answer

        return stepping


TERMS = [
    Terms(namespace="n", lease=1_000, window=60_000),
    Terms(namespace="n", lease=5_000, window=2_000, max_attempts=2),
]
keys, fingerprints, terms = (
    st.sampled_from([KEYS[0], KEYS[0], KEYS[0], KEYS[1]]),
    st.sampled_from(FINGERPRINTS),
    st.sampled_from(TERMS),
)
turns = st.sampled_from([0, 1, 2, 3, 4, 5, 6, *[9] * 14])
"""How far a caller gets before the next one starts: mostly to its end."""
actions = st.one_of(
    st.tuples(st.just("claim"), keys, fingerprints, terms, turns),
    st.tuples(st.just("finish"), keys, st.sampled_from([False, False, True]), terms, turns),
    st.tuples(st.sampled_from(["fail", "release", "mark", "forget"]), keys, st.none(), terms, turns),
    st.tuples(st.just("go on"), st.integers(0, 9), turns),
    st.tuples(st.just("die"), st.integers(0, 9)),
    st.tuples(st.just("pass"), st.sampled_from([1, 500, 1_500, 3_000, 70_000])),
    st.tuples(st.sampled_from(["flush", "outage"])),
)


def perform(world, action):
    match action:
        case ["go on", number, steps]:
            world.go_on(number, steps)
        case ["die", number]:
            world.die(number)
        case ["pass", milliseconds]:
            world.clock.now += milliseconds
        case ["flush"]:
            if not world.forgetting:  # would take the bar away in between: the one limit there is
                world.copies = MemoryCopies(world.clock)
        case ["outage"]:
            world.down = not world.down
        case ["claim", key, fingerprint, its_terms, steps]:
            world.start(steps, "claim", ClaimRequest(key, world.token(), its_terms, fingerprint))
        case ["forget", key, _, _, steps]:
            world.start(steps, "forget", key)
        case ["mark", key, _, its_terms, steps]:
            world.start(steps, "mark", Mark(key, its_terms.window))
        case [verb, key, flag, its_terms, steps]:
            [found] = world.memory.get([key])
            token = world.token() if found is None else found.record.token
            window = its_terms.window
            match verb:
                case "finish":
                    if not flag:
                        window = world.windows.setdefault(token, window)
                    world.start(
                        steps,
                        "finish",
                        Finish(key, token, window, b"7", "json", b"resolver" if flag else b""),
                    )
                case "fail":
                    world.start(steps, "fail", Fail(key, token, window, "Error"))
                case "release":
                    world.start(steps, "release", Release(key, token, window))


@settings(max_examples=2_000, deadline=None)
@given(st.lists(actions, min_size=3, max_size=20))
def test_under_any_interleaving_the_fast_tier_says_what_the_durable_one_would(steps):
    rest, tiered_module._REST = tiered_module._REST, 0.0
    world = World()
    try:
        for action in steps:
            perform(world, action)
            world.check()
        while world.callers:
            world.go_on(0, 1)
            world.check()
    finally:
        tiered_module._REST = rest
        for caller in world.callers:
            caller.close()


def test_the_interleavings_do_reach_the_fast_tier():
    """The property above would hold of a fast tier that never answers."""
    world = World()
    for action in [
        ("claim", KEYS[0], b"", TERMS[0], 9),
        ("finish", KEYS[0], False, TERMS[0], 9),
        ("claim", KEYS[0], b"", TERMS[0], 9),
        ("mark", KEYS[1], None, TERMS[0], 9),
        ("mark", KEYS[1], None, TERMS[0], 9),
    ]:
        perform(world, action)
    assert world.answered_fast == 2


# On real servers


class Counting(SQLiteStore):
    def __init__(self, path):
        super().__init__(path)
        self.asked = 0

    def claim(self, requests):
        self.asked += len(requests)
        return super().claim(requests)

    def mark(self, marks):
        self.asked += len(marks)
        return super().mark(marks)


@pytest.fixture
def durable(tmp_path):
    return Counting(tmp_path / "dedup.db")


def test_replays_and_known_marks_do_not_reach_the_durable_tier(redis_url, durable):
    once = Once(TieredStore(open_store(redis_url), durable))
    assert once.run("k", lambda: 7) == 7
    assert not once.seen("m")
    asked = durable.asked
    assert [once.run("k", lambda: 8) for _ in range(5)] == [7] * 5
    assert [once.seen("m") for _ in range(5)] == [True] * 5
    assert once.fresh(["m", "m"]) == []
    assert durable.asked == asked


def test_what_redis_has_forgotten_is_learnt_again(redis_url, durable):
    once = Once(TieredStore(open_store(redis_url), durable))
    once.run("k", lambda n: n, 7)
    once.seen("m")
    redis.Redis.from_url(redis_url).flushall()
    assert once.run("k", lambda n: n, 7) == 7
    assert once.seen("m")
    asked = durable.asked
    assert once.run("k", lambda n: n, 7) == 7
    assert once.seen("m")
    assert durable.asked == asked


def test_marks_made_in_redis_before_the_work_do_not_count(redis_url, durable):
    """The trap: marked in the fast tier, then died before the durable one heard of it."""
    once = Once(TieredStore(open_store(redis_url), durable))
    fast = ability(open_store(redis_url), KeepsCopies).copies()
    digest = key_digest("default")("m")
    fast.reserve(
        [Reservation(digest + b"s", b"deadhand", 60_000), Reservation(digest + b"r", b"deadhand", 60_000)]
    )
    assert not once.seen("m")
    assert once.seen("m")
    assert once.run("m", lambda: 1) == 1
    assert once.run("m", lambda: 2) == 1


def test_with_the_fast_tier_down_all_goes_on(durable, tmp_path):
    once = Once(TieredStore(open_store("redis://127.0.0.1:1/0?timeout=200ms"), durable))
    began = time.monotonic()
    for n in range(20):
        assert once.run(n, lambda n: n, n) == n
        assert once.run(n, lambda n: -1, n) == n
        assert not once.seen(n)
        assert once.seen(n)
    assert time.monotonic() - began < 3
    assert once.check().details["fast_tier"].startswith("down")


def test_nothing_is_forgotten_while_the_fast_tier_cannot_hear_of_it(durable):
    once = Once(TieredStore(open_store("redis://127.0.0.1:1/0?timeout=200ms"), durable))
    once.run("k", lambda: 7)
    with pytest.raises(StoreUnavailable, match="nothing was forgotten"):
        once.forget("k")
    assert once.run("k", lambda: 8) == 7


def test_forgotten_is_forgotten_in_both(redis_url, durable):
    once = Once(TieredStore(open_store(redis_url), durable))
    once.run("k", lambda: 7)
    once.seen("k")
    assert once.forget("k")
    assert not once.seen("k")
    assert once.run("k", lambda: 8) == 8
    assert once.run("k", lambda: 9) == 8
    asked = durable.asked
    assert once.run("k", lambda: 9) == 8
    assert durable.asked == asked


@pytest.mark.server("redis")
def test_redis_killed_and_restarted_under_way(own_redis, durable):
    server = own_redis()
    once = Once(TieredStore(open_store(f"{server.url}?timeout=200ms"), durable))
    for n in range(60):
        if n == 20:
            server.kill()
        if n == 40:
            server.start()
        assert once.run(n, lambda n: n, n) == n
        assert once.run(n, lambda n: -1, n) == n
        assert once.fresh([n, n]) == [n]


async def test_tiers_for_tasks_by_one_url(redis_url, emptied_postgres_url):
    async def work():
        return 7

    async with AsyncOnce(f"{redis_url} + {emptied_postgres_url}") as once:
        assert await once.run("k", work) == 7
        assert (await once.attempt("k", work)).replayed
        assert (await once.check()).details["fast_tier"] == "up"
    with Once(emptied_postgres_url) as alone:
        assert alone.get("k").state == "done"


def test_tiers_by_one_url(redis_url, tmp_path):
    with Once(f"{redis_url}+sqlite:///{tmp_path}/dedup.db") as once:
        assert once.run("k", lambda: 7) == 7
        assert once.run("k", lambda: 8) == 7


@pytest.mark.parametrize(
    ("url", "why"),
    [
        ("sqlite:///a.db+postgresql://u:secret@h/d", "can be the fast tier"),
        ("redis://h+postgresql://u:secret@h/d+sqlite:///x.db", "more than two tiers"),
        ("nonsense://h+postgresql://u:secret@h/d", "is not a store URL"),
    ],
)
def test_tiers_that_make_no_sense_are_refused(url, why):
    with pytest.raises(ConfigError, match=why) as refused:
        open_store(url)
    assert "secret" not in str(refused.value)


def test_a_second_attempt_is_not_copied_as_a_first(durable):
    class Stuck(MemoryCopies):
        def vacate(self, places):
            raise StoreUnavailable("not now")

    fast = MemoryStore()
    fast._copies = Stuck(fast._clock)
    once = Once(TieredStore(fast, durable))
    with pytest.raises(ZeroDivisionError):
        once.run("k", lambda: 1 / 0)
    assert once.attempt("k", lambda: 7).attempt == 2
    assert [once.attempt("k", lambda: 8).attempt for _ in range(3)] == [2, 2, 2]


def test_a_replay_that_cannot_be_copied_is_answered_all_the_same():
    class Unreadable(MemoryStore):
        def get(self, keys):
            raise StoreUnavailable("gone since")

    durable = Unreadable()
    Once(durable).run("k", lambda: 1)
    assert Once(TieredStore(MemoryStore(), durable)).run("k", lambda: 2) == 1


def test_calls_that_failed_leave_nothing_behind_in_the_process():
    store = TieredStore(MemoryStore(), MemoryStore())
    with pytest.raises(ZeroDivisionError):
        Once(store).run("k", lambda: 1 / 0)
    claim = Once(store).claim("other")
    claim.acquire()
    claim.release()
    assert store._first_attempts == {}


def test_marks_that_were_made_are_told_although_the_known_ones_cannot_be_copied(durable):
    once = Once(TieredStore(MemoryStore(), durable))
    Once(durable).seen("known")

    def unreachable(keys):
        raise StoreUnavailable("gone in this moment")

    durable.marks = unreachable
    assert once.fresh(["known", "new"]) == ["new"]
    assert once.seen("known")
