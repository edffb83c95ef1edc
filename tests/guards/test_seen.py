"""`seen` and `fresh`: atomic add-if-absent with a window, on every store."""

import pytest

from dupeproof import AsyncOnce, Once


@pytest.fixture
def once(any_url):
    with Once(any_url, namespace="inbox") as once:
        yield once


def test_an_id_is_seen_from_the_second_time_on(once):
    assert once.seen("msg-1") is False
    assert once.seen("msg-1") is True
    assert once.seen("msg-2") is False


def test_metadata_is_kept_with_the_first_mark(once):
    assert once.seen("msg-1", meta={"from": "eu-1", "n": [1, None]}) is False
    assert once.seen("msg-1", meta={"from": "us-2"}) is True
    entry = once.get("msg-1")
    assert entry.meta == {"from": "eu-1", "n": [1, None]}
    assert entry.state == "seen"
    assert entry.expires_at is not None


def test_fresh_keeps_order_and_drops_repeats(once):
    once.seen(3)
    messages = [{"id": n} for n in (1, 2, 3, 2, 4, 1)]
    assert once.fresh(messages, key=lambda m: m["id"]) == [{"id": 1}, {"id": 2}, {"id": 4}]
    assert once.fresh(messages, key=lambda m: m["id"]) == []
    assert once.fresh(["a", "b", "a"]) == ["a", "b"]
    assert once.fresh([]) == []


def test_fresh_takes_more_than_a_batch(once):
    ids = [f"m-{n}" for n in range(2_500)]
    assert once.fresh(iter(ids[:1_700])) == ids[:1_700]
    assert once.fresh(ids) == ids[1_700:]


def test_a_bad_key_among_many_marks_none(once):
    with pytest.raises(ValueError, match="None"):
        once.fresh(["a", None, "b"])
    assert once.fresh(["a", "b"]) == ["a", "b"]


def test_forgetting_makes_an_id_new(once):
    once.seen("msg-1")
    assert once.forget("msg-1") is True
    assert once.forget("msg-1") is False
    assert once.seen("msg-1") is False


def test_marks_and_runs_of_one_id_do_not_interfere_and_are_forgotten_together(once):
    assert once.seen("id") is False
    assert once.run("id", lambda: 5) == 5
    assert once.seen("id") is True
    entry = once.get("id")
    assert (entry.state, entry.result) == ("done", 5)
    assert once.forget("id") is True
    assert once.get("id") is None
    assert once.attempt("id", lambda: 6).value == 6


def test_namespaces_are_apart(any_url):
    with Once(any_url, namespace="a") as a, Once(any_url, namespace="b") as b:
        assert a.seen("x") is False
        assert b.seen("x") is False
        assert a.run("k", lambda: "a") == "a"
        assert b.run("k", lambda: "b") == "b"


async def test_the_async_form_is_the_same(any_url):
    async with AsyncOnce(any_url, namespace="inbox") as once:
        assert await once.seen("msg-1", meta={"a": 1}) is False
        assert await once.seen("msg-1") is True
        assert (await once.get("msg-1")).meta == {"a": 1}
        assert await once.fresh(["msg-1", "x", "x"]) == ["x"]
        assert await once.forget("msg-1") is True
        assert await once.seen("msg-1") is False
