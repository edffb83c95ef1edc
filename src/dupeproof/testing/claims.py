# Written by tools/twins.py from src/dupeproof/testing/claims_async.py; change that file instead.
"""Conformance: the life of a claim, transition by transition, as core/states.py draws it."""

from dupeproof.core import outcomes
from dupeproof.core.protocols import Store
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
    renew,
    terms,
    won,
)
from dupeproof.testing.runtime import together

ONE, OTHER = b"1" * 16, b"2" * 16


class ClaimCases(StoreCase):
    def test_a_free_key_is_won_on_the_first_attempt(self, store: Store) -> None:
        assert claim(store, new_key(), new_token()) == outcomes.Won(1)

    def test_a_running_key_is_busy_and_tells_how_long(self, store: Store) -> None:
        key = new_key()
        won(store, key, terms(lease=10_000))
        outcome = claim(store, key, new_token())
        assert isinstance(outcome, outcomes.Busy)
        assert 0 < outcome.lease_left <= 10_000

    def test_one_of_many_claimants_wins(self, store: Store) -> None:
        key = new_key()

        def attempt(_number: int) -> outcomes.Outcome:
            return claim(store, key, new_token())

        answers = together(32, attempt)
        assert [type(answer) for answer in answers].count(outcomes.Won) == 1
        assert [type(answer) for answer in answers].count(outcomes.Busy) == 31

    def test_a_claim_repeated_with_its_token_is_won_again(self, store: Store) -> None:
        key = new_key()
        token = won(store, key)
        assert claim(store, key, token) == outcomes.Won(1)

    def test_a_finished_key_gives_its_result(self, store: Store) -> None:
        key = new_key()
        token = won(store, key)
        assert finish(store, key, token, b'{"paid":true}')
        assert claim(store, key, new_token()) == outcomes.Done(b'{"paid":true}', "json", 1)

    def test_results_come_back_as_they_were_whatever_their_size(self, store: Store) -> None:
        for result in (b"", b"\x00\xff\x00", b"x" * 1_048_576):
            key = new_key()
            finish(store, key, won(store, key), result, codec="" if not result else "raw")
            outcome = claim(store, key, new_token())
            assert isinstance(outcome, outcomes.Done)
            assert outcome.result == result

    def test_a_finish_may_be_repeated(self, store: Store) -> None:
        key = new_key()
        token = won(store, key)
        assert finish(store, key, token, b"1")
        assert finish(store, key, token, b"1")

    def test_a_finish_is_refused_to_a_stranger(self, store: Store) -> None:
        key = new_key()
        token = won(store, key)
        assert not finish(store, key, new_token(), b"stolen")
        assert finish(store, key, token, b"mine")
        assert not finish(store, key, new_token(), b"stolen")
        assert not finish(store, new_key(), token)
        assert claim(store, key, new_token()) == outcomes.Done(b"mine", "json", 1)

    def test_other_content_is_told_before_busy_and_before_done(self, store: Store) -> None:
        key = new_key()
        token = won(store, key, fingerprint=ONE)
        assert claim(store, key, new_token(), fingerprint=OTHER) == outcomes.Mismatch()
        assert isinstance(claim(store, key, new_token(), fingerprint=ONE), outcomes.Busy)
        finish(store, key, token)
        assert claim(store, key, new_token(), fingerprint=OTHER) == outcomes.Mismatch()
        assert isinstance(claim(store, key, new_token(), fingerprint=ONE), outcomes.Done)

    def test_other_content_is_refused_after_a_failure_too(self, store: Store) -> None:
        key = new_key()
        fail(store, key, won(store, key, fingerprint=ONE))
        assert claim(store, key, new_token(), fingerprint=OTHER) == outcomes.Mismatch()
        assert claim(store, key, new_token(), fingerprint=ONE) == outcomes.Won(2)

    def test_content_is_compared_only_where_both_sides_have_it(self, store: Store) -> None:
        with_content, without = new_key(), new_key()
        finish(store, with_content, won(store, with_content, fingerprint=ONE))
        finish(store, without, won(store, without))
        assert isinstance(claim(store, with_content, new_token()), outcomes.Done)
        assert isinstance(claim(store, without, new_token(), fingerprint=ONE), outcomes.Done)

    def test_a_failed_key_is_claimed_again_by_one(self, store: Store) -> None:
        key = new_key()
        assert fail(store, key, won(store, key))

        def attempt(_number: int) -> outcomes.Outcome:
            return claim(store, key, new_token())

        answers = together(16, attempt)
        assert [answer for answer in answers if isinstance(answer, outcomes.Won)] == [outcomes.Won(2)]

    def test_failing_is_refused_to_a_stranger_and_may_be_repeated(self, store: Store) -> None:
        key = new_key()
        token = won(store, key)
        assert not fail(store, key, new_token())
        assert fail(store, key, token)
        assert fail(store, key, token)
        assert not finish(store, key, token)

    def test_a_late_copy_of_a_claim_does_not_win_after_its_maker_failed(self, store: Store) -> None:
        key = new_key()
        token = won(store, key)
        fail(store, key, token)
        assert isinstance(claim(store, key, token), outcomes.Busy)
        assert claim(store, key, new_token()) == outcomes.Won(2)

    def test_a_dead_key_stays_dead(self, store: Store) -> None:
        key = new_key()
        assert fail(store, key, won(store, key, terms(limit=1)), dead=True)
        assert claim(store, key, new_token(), terms(limit=1)) == outcomes.Dead(1, newly=False)

    def test_the_claim_that_finds_the_attempts_used_up_is_told_once(self, store: Store) -> None:
        key = new_key()
        for _ in range(2):
            fail(store, key, won(store, key, terms(limit=2)))
        token = new_token()
        assert claim(store, key, token, terms(limit=2)) == outcomes.Dead(2, newly=True)
        assert claim(store, key, token, terms(limit=2)) == outcomes.Dead(2, newly=True)
        assert claim(store, key, new_token(), terms(limit=2)) == outcomes.Dead(2, newly=False)

    def test_an_abandoned_last_attempt_makes_the_key_dead(self, store: Store) -> None:
        key = new_key()
        token = won(store, key, terms(lease=SHORT, limit=1))
        after(SHORT)
        assert claim(store, key, new_token(), terms(limit=1)) == outcomes.Dead(1, newly=True)
        assert not finish(store, key, token)

    def test_an_abandoned_key_is_taken_over_and_the_late_owner_refused(self, store: Store) -> None:
        key = new_key()
        first = won(store, key, terms(lease=SHORT))
        after(SHORT)
        second = new_token()
        assert claim(store, key, second) == outcomes.Won(2, took_over=True)
        assert not renew(store, key, first)
        assert not release(store, key, first)
        assert not fail(store, key, first)
        assert not finish(store, key, first, b"late")
        assert finish(store, key, second, b"second")
        assert not finish(store, key, first, b"late")
        assert claim(store, key, new_token()) == outcomes.Done(b"second", "json", 2)

    def test_a_late_owner_nobody_replaced_may_still_finish(self, store: Store) -> None:
        key = new_key()
        token = won(store, key, terms(lease=SHORT))
        after(SHORT)
        assert finish(store, key, token)

    def test_renewing_keeps_a_key_from_being_abandoned(self, store: Store) -> None:
        key = new_key()
        token = won(store, key, terms(lease=SHORT))
        assert renew(store, key, token, lease=HOUR)
        after(SHORT)
        assert isinstance(claim(store, key, new_token()), outcomes.Busy)
        assert not renew(store, key, new_token())

    def test_a_held_key_waits_for_its_owner_or_someone_to_resolve_it(self, store: Store) -> None:
        key, other = new_key(), new_key()
        token = won(store, key, terms(lease=SHORT, window=SHORT, hold=True))
        won(store, other, terms(lease=SHORT, window=SHORT, hold=True))
        after(3 * SHORT)
        assert claim(store, key, new_token()) == outcomes.Held(1)
        assert finish(store, key, token, b"late but once")
        assert isinstance(claim(store, key, new_token()), outcomes.Done)
        assert claim(store, other, new_token()) == outcomes.Held(1)

    def test_the_promise_to_hold_is_that_of_the_first_claim(self, store: Store) -> None:
        held, rerun = new_key(), new_key()
        won(store, held, terms(lease=SHORT, hold=True))
        won(store, rerun, terms(lease=SHORT))
        after(SHORT)
        assert claim(store, held, new_token(), terms(hold=False)) == outcomes.Held(1)
        assert claim(store, rerun, new_token(), terms(hold=True)) == outcomes.Won(2, took_over=True)

    def test_resolving_replaces_the_owner(self, store: Store) -> None:
        key = new_key()
        token = won(store, key, terms(lease=3 * SHORT, hold=True))
        assert not finish(store, key, token, resolver=new_token())
        after(3 * SHORT)
        assert not finish(store, key, new_token(), resolver=new_token())
        assert finish(store, key, token, b"resolved", resolver=new_token())
        assert not finish(store, key, token, b"late")
        assert claim(store, key, new_token()) == outcomes.Done(b"resolved", "json", 1)

    def test_failed_and_dead_keys_can_be_resolved(self, store: Store) -> None:
        for dead in (False, True):
            key = new_key()
            token = won(store, key)
            fail(store, key, token, dead=dead)
            assert finish(store, key, token, b"resolved", resolver=new_token())
            assert isinstance(claim(store, key, new_token()), outcomes.Done)

    def test_reopening_is_for_keys_nobody_works_on(self, store: Store) -> None:
        running, held, failed, dead, done = (new_key() for _ in range(5))
        tokens = {
            running: won(store, running),
            held: won(store, held, terms(lease=SHORT, hold=True)),
            failed: won(store, failed),
            dead: won(store, dead),
            done: won(store, done),
        }
        fail(store, failed, tokens[failed])
        fail(store, dead, tokens[dead], dead=True)
        finish(store, done, tokens[done])
        after(SHORT)
        assert not release(store, held, new_token(), reopen=True)
        answers = [release(store, key, token, reopen=True) for key, token in tokens.items()]
        assert answers == [False, True, True, True, False]
        assert [claim(store, key, new_token()) for key in (held, failed, dead)] == [outcomes.Won(1)] * 3
        assert not finish(store, held, tokens[held])
        assert not release(store, held, tokens[held], reopen=True)

    def test_a_released_key_was_never_claimed(self, store: Store) -> None:
        key = new_key()
        token = won(store, key)
        assert not release(store, key, new_token())
        assert release(store, key, token)
        assert store.get([key]) == [None]
        assert not finish(store, key, token)
        assert claim(store, key, new_token()) == outcomes.Won(1)

    def test_releasing_a_later_attempt_keeps_the_count_of_the_earlier_ones(self, store: Store) -> None:
        key = new_key()
        fail(store, key, won(store, key))
        assert release(store, key, won(store, key))
        assert claim(store, key, new_token()) == outcomes.Won(2)

    def test_a_finished_key_is_free_after_its_window(self, store: Store) -> None:
        key = new_key()
        finish(store, key, won(store, key), window=SHORT)
        after(SHORT)
        assert store.get([key]) == [None]
        assert claim(store, key, new_token(), fingerprint=OTHER) == outcomes.Won(1)

    def test_the_window_counts_from_completion(self, store: Store) -> None:
        key = new_key()
        token = won(store, key, terms(window=4 * SHORT))
        after(3 * SHORT)
        finish(store, key, token, window=4 * SHORT)
        after(SHORT)
        assert isinstance(claim(store, key, new_token()), outcomes.Done)

    def test_replays_do_not_lengthen_the_window(self, store: Store) -> None:
        key = new_key()
        finish(store, key, won(store, key), window=4 * SHORT)
        after(SHORT)
        assert isinstance(claim(store, key, new_token()), outcomes.Done)
        after(3 * SHORT)
        assert claim(store, key, new_token()) == outcomes.Won(1)

    def test_a_record_tells_its_state(self, store: Store) -> None:
        running, lapsed, held, done, failed, dead, free = (new_key() for _ in range(7))
        won(store, running, fingerprint=ONE)
        won(store, lapsed, terms(lease=SHORT))
        won(store, held, terms(lease=SHORT, hold=True))
        finish(store, done, won(store, done), b"result")
        fail(store, failed, won(store, failed))
        fail(store, dead, won(store, dead), dead=True)
        after(SHORT)
        found = store.get([running, lapsed, held, done, failed, dead, free])
        situations = [None if each is None else each.record.situation(each.now) for each in found]
        assert situations == [
            State.RUNNING,
            State.ABANDONED,
            State.HELD,
            State.DONE,
            State.FAILED,
            State.DEAD,
            None,
        ]
        assert found[0] is not None
        assert found[0].record.fingerprint == ONE
        assert found[0].record.namespace == "conformance"
        assert found[3] is not None
        assert (found[3].record.result, found[3].record.codec) == (b"result", "json")
        assert found[4] is not None
        assert found[4].record.error == "ValueError"
