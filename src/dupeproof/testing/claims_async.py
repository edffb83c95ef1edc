"""Conformance: the life of a claim, transition by transition, as core/states.py draws it."""

from dupeproof.core import outcomes
from dupeproof.core.protocols import AsyncStore
from dupeproof.core.states import State
from dupeproof.testing.base_async import (
    HOUR,
    SHORT,
    AsyncStoreCase,
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
from dupeproof.testing.runtime_async import together

ONE, OTHER = b"1" * 16, b"2" * 16


class AsyncClaimCases(AsyncStoreCase):
    async def test_a_free_key_is_won_on_the_first_attempt(self, store: AsyncStore) -> None:
        assert await claim(store, new_key(), new_token()) == outcomes.Won(1)

    async def test_a_running_key_is_busy_and_tells_how_long(self, store: AsyncStore) -> None:
        key = new_key()
        await won(store, key, terms(lease=10_000))
        outcome = await claim(store, key, new_token())
        assert isinstance(outcome, outcomes.Busy)
        assert 0 < outcome.lease_left <= 10_000

    async def test_one_of_many_claimants_wins(self, store: AsyncStore) -> None:
        key = new_key()

        async def attempt(_number: int) -> outcomes.Outcome:
            return await claim(store, key, new_token())

        answers = await together(32, attempt)
        assert [type(answer) for answer in answers].count(outcomes.Won) == 1
        assert [type(answer) for answer in answers].count(outcomes.Busy) == 31

    async def test_a_claim_repeated_with_its_token_is_won_again(self, store: AsyncStore) -> None:
        key = new_key()
        token = await won(store, key)
        assert await claim(store, key, token) == outcomes.Won(1)

    async def test_a_finished_key_gives_its_result(self, store: AsyncStore) -> None:
        key = new_key()
        token = await won(store, key)
        assert await finish(store, key, token, b'{"paid":true}')
        assert await claim(store, key, new_token()) == outcomes.Done(b'{"paid":true}', "json", 1)

    async def test_results_come_back_as_they_were_whatever_their_size(self, store: AsyncStore) -> None:
        for result in (b"", b"\x00\xff\x00", b"x" * 1_048_576):
            key = new_key()
            await finish(store, key, await won(store, key), result, codec="" if not result else "raw")
            outcome = await claim(store, key, new_token())
            assert isinstance(outcome, outcomes.Done)
            assert outcome.result == result

    async def test_a_finish_may_be_repeated(self, store: AsyncStore) -> None:
        key = new_key()
        token = await won(store, key)
        assert await finish(store, key, token, b"1")
        assert await finish(store, key, token, b"1")

    async def test_a_finish_is_refused_to_a_stranger(self, store: AsyncStore) -> None:
        key = new_key()
        token = await won(store, key)
        assert not await finish(store, key, new_token(), b"stolen")
        assert await finish(store, key, token, b"mine")
        assert not await finish(store, key, new_token(), b"stolen")
        assert not await finish(store, new_key(), token)
        assert await claim(store, key, new_token()) == outcomes.Done(b"mine", "json", 1)

    async def test_other_content_is_told_before_busy_and_before_done(self, store: AsyncStore) -> None:
        key = new_key()
        token = await won(store, key, fingerprint=ONE)
        assert await claim(store, key, new_token(), fingerprint=OTHER) == outcomes.Mismatch()
        assert isinstance(await claim(store, key, new_token(), fingerprint=ONE), outcomes.Busy)
        await finish(store, key, token)
        assert await claim(store, key, new_token(), fingerprint=OTHER) == outcomes.Mismatch()
        assert isinstance(await claim(store, key, new_token(), fingerprint=ONE), outcomes.Done)

    async def test_other_content_is_refused_after_a_failure_too(self, store: AsyncStore) -> None:
        key = new_key()
        await fail(store, key, await won(store, key, fingerprint=ONE))
        assert await claim(store, key, new_token(), fingerprint=OTHER) == outcomes.Mismatch()
        assert await claim(store, key, new_token(), fingerprint=ONE) == outcomes.Won(2)

    async def test_content_is_compared_only_where_both_sides_have_it(self, store: AsyncStore) -> None:
        with_content, without = new_key(), new_key()
        await finish(store, with_content, await won(store, with_content, fingerprint=ONE))
        await finish(store, without, await won(store, without))
        assert isinstance(await claim(store, with_content, new_token()), outcomes.Done)
        assert isinstance(await claim(store, without, new_token(), fingerprint=ONE), outcomes.Done)

    async def test_a_failed_key_is_claimed_again_by_one(self, store: AsyncStore) -> None:
        key = new_key()
        assert await fail(store, key, await won(store, key))

        async def attempt(_number: int) -> outcomes.Outcome:
            return await claim(store, key, new_token())

        answers = await together(16, attempt)
        assert [answer for answer in answers if isinstance(answer, outcomes.Won)] == [outcomes.Won(2)]

    async def test_failing_is_refused_to_a_stranger_and_may_be_repeated(self, store: AsyncStore) -> None:
        key = new_key()
        token = await won(store, key)
        assert not await fail(store, key, new_token())
        assert await fail(store, key, token)
        assert await fail(store, key, token)
        assert not await finish(store, key, token)

    async def test_a_late_copy_of_a_claim_does_not_win_after_its_maker_failed(
        self, store: AsyncStore
    ) -> None:
        key = new_key()
        token = await won(store, key)
        await fail(store, key, token)
        assert isinstance(await claim(store, key, token), outcomes.Busy)
        assert await claim(store, key, new_token()) == outcomes.Won(2)

    async def test_a_dead_key_stays_dead(self, store: AsyncStore) -> None:
        key = new_key()
        assert await fail(store, key, await won(store, key, terms(limit=1)), dead=True)
        assert await claim(store, key, new_token(), terms(limit=1)) == outcomes.Dead(1, newly=False)

    async def test_the_claim_that_finds_the_attempts_used_up_is_told_once(self, store: AsyncStore) -> None:
        key = new_key()
        for _ in range(2):
            await fail(store, key, await won(store, key, terms(limit=2)))
        token = new_token()
        assert await claim(store, key, token, terms(limit=2)) == outcomes.Dead(2, newly=True)
        assert await claim(store, key, token, terms(limit=2)) == outcomes.Dead(2, newly=True)
        assert await claim(store, key, new_token(), terms(limit=2)) == outcomes.Dead(2, newly=False)

    async def test_an_abandoned_last_attempt_makes_the_key_dead(self, store: AsyncStore) -> None:
        key = new_key()
        token = await won(store, key, terms(lease=SHORT, limit=1))
        await after(SHORT)
        assert await claim(store, key, new_token(), terms(limit=1)) == outcomes.Dead(1, newly=True)
        assert not await finish(store, key, token)

    async def test_an_abandoned_key_is_taken_over_and_the_late_owner_refused(self, store: AsyncStore) -> None:
        key = new_key()
        first = await won(store, key, terms(lease=SHORT))
        await after(SHORT)
        second = new_token()
        assert await claim(store, key, second) == outcomes.Won(2, took_over=True)
        assert not await renew(store, key, first)
        assert not await release(store, key, first)
        assert not await fail(store, key, first)
        assert not await finish(store, key, first, b"late")
        assert await finish(store, key, second, b"second")
        assert not await finish(store, key, first, b"late")
        assert await claim(store, key, new_token()) == outcomes.Done(b"second", "json", 2)

    async def test_a_late_owner_nobody_replaced_may_still_finish(self, store: AsyncStore) -> None:
        key = new_key()
        token = await won(store, key, terms(lease=SHORT))
        await after(SHORT)
        assert await finish(store, key, token)

    async def test_renewing_keeps_a_key_from_being_abandoned(self, store: AsyncStore) -> None:
        key = new_key()
        token = await won(store, key, terms(lease=SHORT))
        assert await renew(store, key, token, lease=HOUR)
        await after(SHORT)
        assert isinstance(await claim(store, key, new_token()), outcomes.Busy)
        assert not await renew(store, key, new_token())

    async def test_a_held_key_waits_for_its_owner_or_someone_to_resolve_it(self, store: AsyncStore) -> None:
        key, other = new_key(), new_key()
        token = await won(store, key, terms(lease=SHORT, window=SHORT, hold=True))
        await won(store, other, terms(lease=SHORT, window=SHORT, hold=True))
        await after(3 * SHORT)
        assert await claim(store, key, new_token()) == outcomes.Held(1)
        assert await finish(store, key, token, b"late but once")
        assert isinstance(await claim(store, key, new_token()), outcomes.Done)
        assert await claim(store, other, new_token()) == outcomes.Held(1)

    async def test_the_promise_to_hold_is_that_of_the_first_claim(self, store: AsyncStore) -> None:
        held, rerun = new_key(), new_key()
        await won(store, held, terms(lease=SHORT, hold=True))
        await won(store, rerun, terms(lease=SHORT))
        await after(SHORT)
        assert await claim(store, held, new_token(), terms(hold=False)) == outcomes.Held(1)
        assert await claim(store, rerun, new_token(), terms(hold=True)) == outcomes.Won(2, took_over=True)

    async def test_resolving_replaces_the_owner(self, store: AsyncStore) -> None:
        key = new_key()
        token = await won(store, key, terms(lease=3 * SHORT, hold=True))
        assert not await finish(store, key, token, resolver=new_token())
        await after(3 * SHORT)
        assert not await finish(store, key, new_token(), resolver=new_token())
        assert await finish(store, key, token, b"resolved", resolver=new_token())
        assert not await finish(store, key, token, b"late")
        assert await claim(store, key, new_token()) == outcomes.Done(b"resolved", "json", 1)

    async def test_failed_and_dead_keys_can_be_resolved(self, store: AsyncStore) -> None:
        for dead in (False, True):
            key = new_key()
            token = await won(store, key)
            await fail(store, key, token, dead=dead)
            assert await finish(store, key, token, b"resolved", resolver=new_token())
            assert isinstance(await claim(store, key, new_token()), outcomes.Done)

    async def test_reopening_is_for_keys_nobody_works_on(self, store: AsyncStore) -> None:
        running, held, failed, dead, done = (new_key() for _ in range(5))
        tokens = {
            running: await won(store, running),
            held: await won(store, held, terms(lease=SHORT, hold=True)),
            failed: await won(store, failed),
            dead: await won(store, dead),
            done: await won(store, done),
        }
        await fail(store, failed, tokens[failed])
        await fail(store, dead, tokens[dead], dead=True)
        await finish(store, done, tokens[done])
        await after(SHORT)
        assert not await release(store, held, new_token(), reopen=True)
        answers = [await release(store, key, token, reopen=True) for key, token in tokens.items()]
        assert answers == [False, True, True, True, False]
        assert [await claim(store, key, new_token()) for key in (held, failed, dead)] == [outcomes.Won(1)] * 3
        assert not await finish(store, held, tokens[held])
        assert not await release(store, held, tokens[held], reopen=True)

    async def test_a_released_key_was_never_claimed(self, store: AsyncStore) -> None:
        key = new_key()
        token = await won(store, key)
        assert not await release(store, key, new_token())
        assert await release(store, key, token)
        assert await store.get([key]) == [None]
        assert not await finish(store, key, token)
        assert await claim(store, key, new_token()) == outcomes.Won(1)

    async def test_releasing_a_later_attempt_keeps_the_count_of_the_earlier_ones(
        self, store: AsyncStore
    ) -> None:
        key = new_key()
        await fail(store, key, await won(store, key))
        assert await release(store, key, await won(store, key))
        assert await claim(store, key, new_token()) == outcomes.Won(2)

    async def test_a_finished_key_is_free_after_its_window(self, store: AsyncStore) -> None:
        key = new_key()
        await finish(store, key, await won(store, key), window=SHORT)
        await after(SHORT)
        assert await store.get([key]) == [None]
        assert await claim(store, key, new_token(), fingerprint=OTHER) == outcomes.Won(1)

    async def test_the_window_counts_from_completion(self, store: AsyncStore) -> None:
        key = new_key()
        token = await won(store, key, terms(window=4 * SHORT))
        await after(3 * SHORT)
        await finish(store, key, token, window=4 * SHORT)
        await after(SHORT)
        assert isinstance(await claim(store, key, new_token()), outcomes.Done)

    async def test_replays_do_not_lengthen_the_window(self, store: AsyncStore) -> None:
        key = new_key()
        await finish(store, key, await won(store, key), window=4 * SHORT)
        await after(SHORT)
        assert isinstance(await claim(store, key, new_token()), outcomes.Done)
        await after(3 * SHORT)
        assert await claim(store, key, new_token()) == outcomes.Won(1)

    async def test_a_record_tells_its_state(self, store: AsyncStore) -> None:
        running, lapsed, held, done, failed, dead, free = (new_key() for _ in range(7))
        await won(store, running, fingerprint=ONE)
        await won(store, lapsed, terms(lease=SHORT))
        await won(store, held, terms(lease=SHORT, hold=True))
        await finish(store, done, await won(store, done), b"result")
        await fail(store, failed, await won(store, failed))
        await fail(store, dead, await won(store, dead), dead=True)
        await after(SHORT)
        found = await store.get([running, lapsed, held, done, failed, dead, free])
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
