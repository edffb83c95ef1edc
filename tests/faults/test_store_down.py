"""A store that is down says so within its timeout, whatever way it is down, and works again when it is back."""

import contextlib
import sqlite3
import threading
import time
from concurrent.futures import ThreadPoolExecutor

import pytest

from dupeproof import StoreUnavailable
from support.flavors import both_flavors, open_once

TIMEOUT = 2.0
SLACK = 1.5
KINDS = ("redis", "redis_cluster", "redis_sentinel", "postgres")
SERVERS = [pytest.param(name, marks=pytest.mark.server(name)) for name in KINDS]


@pytest.fixture(params=SERVERS)
def server(request):
    return request.getfixturevalue(f"own_{request.param}")()


def seconds_until_unavailable(call):
    start = time.monotonic()
    with pytest.raises(StoreUnavailable):
        call()
    return time.monotonic() - start


class Callers:
    """Sync and async guards, with and without a connection from before, that all call at the same moment."""

    def __init__(self, stack, url):
        self._guards = {
            f"{flavor} {acquaintance} {verb}": stack.enter_context(open_once(flavor, url))
            for flavor in ("sync", "async")
            for acquaintance in ("connected", "new")
            for verb in ("run", "seen")
        }
        with open_once("sync", url.partition("?")[0]) as patient:
            patient.check()  # tables are made without the tight timeout of those that are measured
        self._call_all(lambda name, guard: "connected" not in name or self._call(name, guard, "warm"))

    def seconds(self, key):
        return self._call_all(
            lambda name, guard: seconds_until_unavailable(lambda: self._call(name, guard, key))
        )

    def answers(self, key):
        return self._call_all(lambda name, guard: self._call(name, guard, key))

    def _call(self, name, guard, key):
        if name.endswith("seen"):
            return guard.seen(f"{key} of {name}")
        return guard.run(f"{key} of {name}", lambda: "ran")

    def _call_all(self, call):
        with ThreadPoolExecutor(len(self._guards)) as pool:
            answers = pool.map(call, self._guards.keys(), self._guards.values())
            return dict(zip(self._guards, answers, strict=True))


def all_fine(answers):
    return answers == {name: "ran" if name.endswith("run") else False for name in answers}


def test_a_server_that_hangs_or_is_gone_is_reported_in_time_and_used_again_after(server):
    with contextlib.ExitStack() as stack:
        callers = Callers(stack, f"{server.url}?timeout={TIMEOUT}s")
        server.pause()
        hung = callers.seconds("hung")
        assert max(hung.values()) < TIMEOUT + SLACK, hung
        server.resume()
        assert all_fine(callers.answers("resumed"))

        server.kill()
        refused = callers.seconds("refused")
        assert max(refused.values()) < TIMEOUT + SLACK, refused
        server.start()
        assert all_fine(callers.answers("back"))


@pytest.mark.server("redis", "postgres")
def test_the_default_timeout_is_five_seconds(own_redis, own_postgres):
    servers = [own_redis(), own_postgres()]
    with contextlib.ExitStack() as stack:
        callers = [Callers(stack, server.url) for server in servers]
        for server in servers:
            server.pause()
        with ThreadPoolExecutor(2) as pool:
            took = [
                took for each in pool.map(lambda one: one.seconds("key"), callers) for took in each.values()
            ]
        for server in servers:
            server.resume()
    assert 4 < min(took) <= max(took) < 5 + SLACK


@pytest.mark.parametrize("name", [name for name in SERVERS if name.values != ("redis_sentinel",)])
def test_a_server_killed_during_the_work_is_reported_in_time_and_the_work_is_not_repeated(request, name):
    server = request.getfixturevalue(f"own_{name}")()
    both_at_work = threading.Barrier(2, action=server.kill)
    ran = []

    def work(flavor):
        ran.append(flavor)
        both_at_work.wait(20)
        return "lost"

    def run(flavor):
        with open_once(flavor, f"{server.url}?timeout={TIMEOUT}s", lease="3s") as once:
            return seconds_until_unavailable(lambda: once.run(f"key-{flavor}", work, flavor))

    with ThreadPoolExecutor(2) as pool:
        took = list(pool.map(run, ["sync", "async"]))
    assert 3 <= min(took) <= max(took) < 3 + TIMEOUT + SLACK, (
        "the finish is tried again for as long as the lease"
    )
    assert sorted(ran) == ["async", "sync"]


@both_flavors
@pytest.mark.parametrize(
    "name", [pytest.param(name, marks=pytest.mark.server(name)) for name in ("redis", "postgres")]
)
@pytest.mark.parametrize("away", [0, 2.5])
def test_a_server_that_comes_back_within_the_lease_gets_the_result(request, name, flavor, away):
    server = request.getfixturevalue(f"own_{name}")(**({"appendonly": True} if name == "redis" else {}))
    back = threading.Timer(away, server.start)

    def work():
        server.kill()
        back.start()
        return "kept"

    with open_once(flavor, server.url) as once:
        assert once.run("key", work) == "kept"
        back.join()
        assert once.attempt("key", work).replayed


@both_flavors
def test_a_policy_of_run_runs_while_the_store_is_down_and_says_so(own_redis, flavor):
    ran, kinds = [], []
    events = [lambda event: kinds.append(str(event.kind))]
    server = own_redis()
    server.kill()
    with open_once(flavor, server.url, on_store_down="run", events=events) as once:
        for _ in range(2):
            assert once.run("key", lambda: ran.append(1) or "ran") == "ran"
        assert once.seen("key") is False
        assert once.fresh(["a", "b"]) == ["a", "b"]
        assert len(ran) == 2
        assert kinds == ["store_down"] * 4 + ["fresh"]


@both_flavors
def test_a_write_lock_held_by_another_is_reported_in_time(tmp_path, flavor):
    url = f"sqlite:///{tmp_path}/dedup.db?timeout={TIMEOUT}s"
    with open_once(flavor, url) as once, open_once(flavor, url) as stranger:
        once.run("done", lambda: "kept")
        with contextlib.closing(sqlite3.connect(tmp_path / "dedup.db", isolation_level=None)) as other:
            other.execute("BEGIN IMMEDIATE")
            assert seconds_until_unavailable(lambda: once.run("key", int)) < TIMEOUT + SLACK
            assert seconds_until_unavailable(lambda: stranger.seen("key")) < TIMEOUT + SLACK
            assert once.run("done", str) == "kept"  # a replay needs no lock
            other.execute("ROLLBACK")
        assert once.run("key", lambda: "back") == "back"
        assert stranger.seen("key") is False


@both_flavors
def test_callers_behind_each_other_do_not_add_up_their_waits_for_the_write_lock(tmp_path, flavor):
    url = f"sqlite:///{tmp_path}/dedup.db?timeout={TIMEOUT}s"
    with open_once(flavor, url) as once, ThreadPoolExecutor(6) as pool:
        once.check()
        with contextlib.closing(sqlite3.connect(tmp_path / "dedup.db", isolation_level=None)) as other:
            other.execute("BEGIN IMMEDIATE")
            calls = [lambda key=f"key-{n}": once.run(key, int) for n in range(6)]
            took = list(pool.map(seconds_until_unavailable, calls))
            other.execute("ROLLBACK")
    assert max(took) < 2 * TIMEOUT + SLACK, took
