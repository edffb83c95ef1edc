"""Fair, and hard to fool: how ids are fed, who is refused, what a failure leaves of the others."""

import os
import threading
from contextlib import asynccontextmanager, contextmanager, nullcontext

import pytest
from bench_tiny import TINY, heat_of

from dupeproof.errors import ConfigError
from dupeproof_lab.bench.affinity import cores, pinned, place
from dupeproof_lab.bench.environments.embedded import MemorySite
from dupeproof_lab.bench.environments.servers import started
from dupeproof_lab.bench.model import Candidate, Unavailable, make_ids
from dupeproof_lab.bench.rounds import broken, race, steps
from dupeproof_lab.bench.shapes import BATCHES, EACH, LOOP, opened, tasks, threads

SHAPES = [EACH, LOOP, BATCHES, threads(4), tasks(4)]


def making(shape, operation):
    if shape.kind != "tasks":
        return nullcontext(operation)

    @asynccontextmanager
    async def make():
        async def call(given):
            return operation(given)

        yield call

    return make()


@pytest.mark.parametrize("shape", SHAPES, ids=lambda shape: shape.kind)
def test_every_id_is_given_once_watched_or_not(shape):
    ids = make_ids(2_500)
    given, log = [], []
    with opened(shape, making(shape, given.append)) as feed:
        feed(ids, None)
        feed(ids, log)
    together = [each for part in given for each in (part if isinstance(part, list) else [part])]
    assert sorted(together) == sorted(ids * 2)
    assert sorted(map(str, given[len(given) // 2 :])) == sorted(str(part) for _, part, _ in log)


def test_batches_are_of_a_thousand():
    sizes = []
    with opened(BATCHES, nullcontext(lambda batch: sizes.append(len(batch)))) as feed:
        feed(make_ids(2_500), None)
    assert sizes == [1_000, 1_000, 500]


def test_an_error_in_a_thread_is_not_lost():
    def fail(_):
        raise ValueError("no")

    with pytest.raises(ValueError, match="no"), opened(threads(2), nullcontext(fail)) as feed:
        feed(make_ids(10), None)


def remembering():
    known = set()

    def new(each):
        if each in known:
            return False
        known.add(each)
        return True

    return nullcontext(new)


def candidate(name, make, *, fresh=bool, who="dupeproof"):
    return Candidate(name=name, who=who, what="", shape=EACH, make=make, fresh=fresh)


GOOD = candidate("good", lambda _: remembering())


def test_contenders_take_turns_and_nobody_is_always_first():
    order = []

    def noting(name):
        @contextmanager
        def make(_):
            order.append(name)
            with remembering() as new:
                yield new

        return candidate(name, make)

    benchmark = heat_of(*map(noting, "abc"))
    told = []
    race(benchmark, MemorySite(), TINY, lambda: told.append(1))
    assert "".join(order) == "abc" + "abc" + "bca" + "abc"
    assert len(told) == steps(benchmark, TINY)


@pytest.mark.parametrize(
    ("operation", "fresh"),
    [
        (lambda _: True, bool),  # remembers nothing
        (lambda _: False, bool),  # calls everything known
        (lambda each: object(), None),  # a guard that runs again
        (lambda each: 1, None),  # a guard that gives everybody the value of the first
    ],
)
def test_who_does_not_do_the_job_is_not_timed(operation, fresh):
    bad = candidate("bad", lambda _: nullcontext(operation), fresh=fresh)
    rows = race(heat_of(bad, GOOD), MemorySite(), TINY, lambda: None)
    assert rows[0].speeds == []
    assert rows[0].reason.startswith("failed: Wrong")
    assert len(rows[1].speeds) == TINY.rounds
    assert broken(rows) == rows[:1]


def test_a_contender_that_fails_later_has_no_figures_and_shows_no_password():
    calls = iter(range(10_000))

    def fail_later(each):
        if next(calls) > 200:
            raise OSError("redis://:secret@host:1/0 is gone")
        return each

    late = candidate("late", lambda _: nullcontext(fail_later), fresh=None, who="idemkit")
    rows = race(heat_of(late, GOOD), MemorySite(), TINY, lambda: None)
    assert rows[0].speeds == []
    assert "secret" not in rows[0].reason
    assert "OSError" in rows[0].reason
    assert broken(rows) == []


def test_what_is_not_installed_is_said_and_is_no_failure():
    @contextmanager
    def make(_):
        raise Unavailable("not here; run: pip install it")
        yield

    rows = race(heat_of(candidate("absent", make), GOOD), MemorySite(), TINY, lambda: None)
    assert rows[0].reason == "not here; run: pip install it"
    assert broken(rows) == []


def test_a_replay_meets_the_same_store_every_round():
    opened_times = []

    @contextmanager
    def make(_):
        opened_times.append(1)
        values = {}
        yield lambda each: values.setdefault(each, len(values))

    [row] = race(
        heat_of(candidate("replay", make, fresh=None), replay=True), MemorySite(), TINY, lambda: None
    )
    assert row.reason is None
    assert len(opened_times) == 1


def test_the_process_is_pinned_with_all_its_threads_and_let_go_after():
    before = os.sched_getaffinity(0)
    one = {min(before)}
    stop = threading.Event()
    other = threading.Thread(target=stop.wait)
    other.start()
    with pinned(one):
        assert os.sched_getaffinity(0) == os.sched_getaffinity(other.native_id) == one
    assert os.sched_getaffinity(0) == os.sched_getaffinity(other.native_id) == before
    stop.set()
    other.join()


def test_a_process_that_has_ended_is_not_missed():
    child = os.posix_spawn("/bin/true", ["true"], {})
    os.waitpid(child, 0)
    place([child], os.sched_getaffinity(0))


def test_two_cores_are_needed_for_a_core_each():
    alone = {min(os.sched_getaffinity(0))}
    with pinned(alone):
        assert cores("same") == (alone, alone)
        with pytest.raises(ConfigError, match="two cores"):
            cores("cross")


@pytest.mark.server("postgres")
def test_every_process_of_a_server_is_pinned(own_postgres):
    one = {min(os.sched_getaffinity(0))}
    with started("postgres", None, one) as environment:
        assert len(environment.pids) > 3
        assert all(os.sched_getaffinity(pid) == one for pid in environment.pids)
        assert environment.durability == "full (fsync each commit)"


@pytest.mark.server("redis")
def test_durability_is_what_the_server_says(own_redis):
    with started("redis", None, os.sched_getaffinity(0)) as environment:
        assert environment.durability == "restarts (log synced each second)"
    with started("redis", own_redis().url, os.sched_getaffinity(0)) as environment:
        assert environment.durability == "none"
    with started("redis", own_redis(appendonly=True).url, os.sched_getaffinity(0)) as environment:
        assert environment.durability == "restarts (log synced each write)"
