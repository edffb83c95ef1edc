"""A Redis that forgets its scripts is told them again; one that forgets a claim refuses the owner."""

import pytest

from dupeproof import ClaimLost
from dupeproof_lab.servers import keyspace
from support.flavors import both_flavors, open_once
from support.stores import on


def on_all_masters(url, *command):
    with keyspace.masters(url) as masters:
        for master in masters:
            master.call(*command)


@both_flavors
@on("redis", "redis_cluster")
def test_scripts_flushed_between_all_calls_change_nothing(url, flavor):
    runs = []
    with open_once(flavor, url) as once:
        for _ in range(3):
            on_all_masters(url, "SCRIPT", "FLUSH")
            assert once.run("key", lambda: runs.append(1) or "value") == "value"
        for expected in (False, True):
            on_all_masters(url, "SCRIPT", "FLUSH")
            assert once.seen("id") is expected
        on_all_masters(url, "SCRIPT", "FLUSH")
        assert once.fresh([f"id-{number}" for number in range(100)]) == [f"id-{n}" for n in range(100)]
        on_all_masters(url, "SCRIPT", "FLUSH")
        assert once.fresh(["id", "id-5", "new"]) == ["new"]
    assert runs == [1]


@both_flavors
@on("redis", "redis_cluster")
def test_scripts_flushed_during_the_work_change_nothing(url, flavor):
    with open_once(flavor, url) as once:
        assert once.run("key", lambda: on_all_masters(url, "SCRIPT", "FLUSH") or "value") == "value"
        assert once.attempt("key", int).replayed


@both_flavors
@on("redis", "redis_cluster")
def test_an_owner_whose_claim_was_flushed_is_refused_and_nothing_is_stored(url, flavor):
    with open_once(flavor, url) as once:
        with pytest.raises(ClaimLost):
            once.run("key", lambda: on_all_masters(url, "FLUSHALL") or "value")
        assert once.get("key") is None
        assert once.attempt("key", int).attempt == 1


@both_flavors
@on("redis")
def test_an_owner_whose_claim_was_flushed_and_taken_by_another_cannot_overwrite(url, flavor):
    with open_once(flavor, url) as once, open_once(flavor, url) as other:

        def work():
            on_all_masters(url, "FLUSHALL")
            assert other.run("key", lambda: "other") == "other"
            return "mine"

        with pytest.raises(ClaimLost):
            once.run("key", work)
        assert once.run("key", work) == "other"
