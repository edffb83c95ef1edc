# Written by tools/twins.py from src/dupeproof/testing/holds_async.py; change that file instead.
"""Conformance: keys that are held because their work may have happened, what is kept with a record, and how it is found."""

import pytest

from dupeproof.core import outcomes
from dupeproof.core.protocols import Listable, Store, ability
from dupeproof.core.records import ClaimRequest, Listed, Terms
from dupeproof.core.states import State
from dupeproof.testing.base import (
    HOUR,
    SHORT,
    StoreCase,
    after,
    claim,
    fail,
    finish,
    new_key,
    new_token,
    release,
    terms,
    won,
)


def situation(store: Store, key: bytes) -> State | None:
    [found] = store.get([key])
    return None if found is None else found.record.situation(found.now)


class HoldCases(StoreCase):
    @pytest.mark.parametrize("promised", [terms(), terms(hold=True)])
    def test_a_key_that_is_held_is_claimed_by_nobody(self, store: Store, promised: Terms) -> None:
        key = new_key()
        token = won(store, key, promised)
        assert fail(store, key, token, hold=True)
        assert claim(store, key, new_token(), promised) == outcomes.Held(1)
        [found] = store.get([key])
        assert found is not None
        assert (found.record.situation(found.now), found.record.error) == (State.HELD, "ValueError")

    def test_to_hold_may_be_repeated_after_a_lost_reply(self, store: Store) -> None:
        key = new_key()
        token = won(store, key)
        assert fail(store, key, token, hold=True)
        assert fail(store, key, token, hold=True)

    def test_only_the_owner_can_hold_a_key(self, store: Store) -> None:
        key = new_key()
        token = won(store, key)
        assert not fail(store, key, new_token(), hold=True)
        assert finish(store, key, token)
        assert not fail(store, key, token, hold=True)
        assert situation(store, key) is State.DONE

    def test_the_owner_of_a_held_key_can_still_finish_it(self, store: Store) -> None:
        key = new_key()
        token = won(store, key)
        fail(store, key, token, hold=True)
        assert finish(store, key, token, b"7")
        assert claim(store, key, new_token()) == outcomes.Done(b"7", "json", 1)

    def test_a_held_key_can_be_resolved_and_reopened(self, store: Store) -> None:
        for reopened in (False, True):
            key = new_key()
            token = won(store, key)
            fail(store, key, token, hold=True)
            if reopened:
                assert release(store, key, token, reopen=True)
                assert claim(store, key, new_token()) == outcomes.Won(1)
            else:
                assert finish(store, key, token, b"7", resolver=new_token())
                assert claim(store, key, new_token()) == outcomes.Done(b"7", "json", 1)

    def test_what_was_resolved_may_be_resolved_again_until_somebody_has_it(self, store: Store) -> None:
        key, wrong, right = new_key(), new_token(), new_token()
        token = won(store, key)
        fail(store, key, token, hold=True)
        assert finish(store, key, token, b"1", resolver=wrong)
        assert situation(store, key) is State.RESOLVED
        assert not release(store, key, wrong, reopen=True)  # its steps may be lost by now
        assert finish(store, key, wrong, b"2", resolver=right)
        assert not finish(store, key, wrong, b"3", resolver=new_token())
        for _ in range(2):
            assert claim(store, key, new_token()) == outcomes.Done(b"2", "json", 1)
        assert situation(store, key) is State.DONE
        assert not finish(store, key, right, b"3", resolver=new_token())

    def test_a_claim_with_other_content_is_not_given_what_was_resolved(self, store: Store) -> None:
        key, resolver = new_key(), new_token()
        token = new_token()
        [outcome] = store.claim([ClaimRequest(key, token, terms(), b"a" * 16)])
        assert outcome == outcomes.Won(1)
        fail(store, key, token, hold=True)
        assert finish(store, key, token, b"1", resolver=resolver)
        [outcome] = store.claim([ClaimRequest(key, new_token(), terms(), b"b" * 16)])
        assert outcome == outcomes.Mismatch()
        assert situation(store, key) is State.RESOLVED

    def test_the_window_of_what_was_resolved_does_not_begin_anew_with_its_first_caller(
        self, store: Store
    ) -> None:
        key = new_key()
        token = won(store, key)
        fail(store, key, token, hold=True)
        assert finish(store, key, token, b"1", window=SHORT * 3, resolver=new_token())
        after(SHORT)
        assert claim(store, key, new_token()) == outcomes.Done(b"1", "json", 1)
        [found] = store.get([key])
        assert found is not None
        assert found.record.expires_at - found.now <= SHORT * 2

    def test_no_window_ends_a_held_key(self, store: Store) -> None:
        key = new_key()
        token = won(store, key, terms(window=SHORT))
        fail(store, key, token, window=SHORT, hold=True)
        after(SHORT)
        assert claim(store, key, new_token()) == outcomes.Held(1)

    def test_a_take_over_that_is_handed_back_leaves_the_key_abandoned(self, store: Store) -> None:
        key = new_key()
        won(store, key, terms(lease=1))
        after(1)
        token = new_token()
        assert claim(store, key, token) == outcomes.Won(2, took_over=True)
        assert release(store, key, token)
        assert situation(store, key) is State.ABANDONED
        assert claim(store, key, new_token()) == outcomes.Won(2, took_over=True)

    def test_a_take_over_repeated_after_a_lost_reply_is_still_one(self, store: Store) -> None:
        key = new_key()
        won(store, key, terms(lease=1))
        after(1)
        token = new_token()
        for _ in range(2):
            assert claim(store, key, token) == outcomes.Won(2, took_over=True)


class ListCases(StoreCase):
    @pytest.fixture
    def listable(self, store: Store) -> Listable:
        found = ability(store, Listable)  # type: ignore[type-abstract]
        if found is None:
            pytest.skip("this store lists nothing")
        return found

    def test_what_a_guard_says_of_a_claim_is_kept(self, store: Store) -> None:
        key = new_key()
        promised = terms(window=12_345, name="shop.charge")
        store.claim([ClaimRequest(key, new_token(), promised, kept_key="order:ö-1")])
        [found] = store.get([key])
        assert found is not None
        record = found.record
        assert (record.window, record.name, record.kept_key) == (12_345, "shop.charge", "order:ö-1")
        finish(store, key, record.token, window=12_345)
        [found] = store.get([key])
        assert found is not None
        assert (found.record.name, found.record.kept_key) == ("shop.charge", "order:ö-1")

    def test_what_waits_for_somebody_is_listed(self, store: Store, listable: Listable) -> None:
        held, abandoned, dead, running, plain = (new_key() for _ in range(5))
        fail(store, held, won(store, held, terms(name="f")), hold=True)
        won(store, abandoned, terms(lease=1, hold=True))
        fail(store, dead, won(store, dead), dead=True)
        won(store, running, terms(hold=True))
        won(store, plain)
        after(1)
        found = waiting(listable)
        states = {each.key: each.record.situation(each.now) for each in found}
        assert states[held] == states[abandoned] == State.HELD
        assert states[dead] is State.DEAD
        assert states[running] is State.RUNNING
        assert plain not in states
        [entry] = [each for each in found if each.key == held]
        assert (entry.record.name, entry.record.error) == ("f", "ValueError")

    def test_what_waits_no_longer_is_not_listed(self, store: Store, listable: Listable) -> None:
        ended: list[bytes] = []
        for how in ("finish", "fail", "resolve", "reopen", "release", "forget"):
            key = new_key()
            token = won(store, key, terms(hold=True))
            if how in ("resolve", "reopen"):
                fail(store, key, token, hold=True)
            match how:
                case "finish":
                    assert finish(store, key, token)
                case "fail":
                    assert fail(store, key, token)
                case "resolve":
                    assert finish(store, key, token, resolver=new_token())
                case "reopen" | "release":
                    assert release(store, key, token, reopen=how == "reopen")
                case _:
                    assert store.forget([key]) == [True]
            ended.append(key)
        assert not {each.key for each in waiting(listable)} & {*ended}

    def test_a_key_that_was_dead_is_listed_until_it_is_resolved(
        self, store: Store, listable: Listable
    ) -> None:
        key = new_key()
        token = won(store, key)
        fail(store, key, token, dead=True)
        assert key in {each.key for each in waiting(listable)}
        assert finish(store, key, token, resolver=new_token())
        assert key not in {each.key for each in waiting(listable)}

    def test_all_records_are_listed_and_no_result_with_them(self, store: Store, listable: Listable) -> None:
        keys = [new_key() for _ in range(30)]
        for key in keys:
            finish(store, key, won(store, key), b"secret", window=HOUR)
        found: dict[bytes, Listed] = {}
        for page in listable.records():
            found |= {each.key: each for each in page}
        assert {*keys} <= {*found}
        assert {found[key].record.result for key in keys} == {b""}

    def test_a_sample_says_which_part_of_all_it_is(self, store: Store, listable: Listable) -> None:
        keys = [new_key() for _ in range(30)]
        for key in keys:
            finish(store, key, won(store, key), b"secret", window=HOUR)
        everything = listable.sample(1_000_000)
        assert everything.share == 1.0
        assert {*keys} <= {each.key for each in everything.records}
        assert {each.record.result for each in everything.records} == {b""}
        assert 0 < (listable.sample(10)).share <= 1


def waiting(listable: Listable) -> list[Listed]:
    return listable.waiting(1_000_000)
