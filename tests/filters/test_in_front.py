"""InFront: drops only what the exact guard has confirmed, and asks it only about ids the filter has met."""

import pytest

from dupeproof import AsyncOnce, Once
from dupeproof.filters import AsyncInFront, Bloom, InFront, RotatingBloom
from support.stores import EVERY, on


class Counted:
    """A guard that counts what it is asked."""

    def __init__(self, once):
        self._once = once
        self.asked = []

    def known(self, keys):
        self.asked += keys
        return self._once.known(keys)


@on(*EVERY)
def test_only_what_is_seen_or_done_is_known(url):
    with Once(url) as once:
        once.seen("seen")
        once.run("done", int)
        with pytest.raises(ZeroDivisionError):
            once.run("failed", lambda: 1 // 0)
        with once.claim("running"):
            keys = ["seen", "new", "done", "failed", "running"]
            assert once.known(keys) == [True, False, True, False, False]
        assert once.known([]) == []


def test_new_ids_pass_without_a_question(tmp_path):
    with Once(f"sqlite:///{tmp_path}/dedup.db") as once:
        exact = Counted(once)
        front = InFront(Bloom(10_000, 1e-6), exact)
        ids = [f"id-{n}" for n in range(1_000)]
        assert front.unknown(ids) == ids
        assert exact.asked == []
        for each in ids[:500]:
            once.run(each, int)
        assert front.unknown(ids) == ids[500:]
        assert exact.asked == ids


def test_a_filter_that_takes_everything_for_known_loses_nothing():
    with Once("memory://") as once:
        bloom = Bloom(1)
        bloom.add_many(range(100_000))  # far beyond its measure: it says yes to all
        front = InFront(bloom, once)
        once.seen("old")
        assert front.unknown(["new", "old", "newer"]) == ["new", "newer"]


def test_processes_with_filters_of_their_own_run_each_id_once():
    runs = []
    with Once("memory://") as once:
        fronts = [InFront(RotatingBloom(1_000, "1h"), once) for _ in range(2)]
        for front in fronts * 2:
            for message in front.unknown([{"id": 1}, {"id": 2}, {"id": 1}], key=lambda m: m["id"]):
                once.run(message["id"], lambda message=message: runs.append(message["id"]))
    assert runs == [1, 2]


async def test_the_async_form_is_the_same():
    async with AsyncOnce("memory://") as once:
        front = AsyncInFront(Bloom(1_000), once)
        await once.seen("a")
        assert await front.unknown(["a", "b"]) == ["a", "b"]  # not met here: the guard will tell
        assert await front.unknown(["a", "b"]) == ["b"]
