"""Conformance: batches, marks, forgetting, purging, and the store as a whole."""

from dupeproof.core import outcomes
from dupeproof.core.protocols import AsyncSeenSet, AsyncStore, AsyncWaitable
from dupeproof.core.records import ClaimRequest, Fail, Finish, Mark, Release, Renew
from dupeproof.testing.base_async import (
    HOUR,
    SHORT,
    AsyncStoreCase,
    after,
    claim,
    fail,
    finish,
    mark,
    new_key,
    new_token,
    terms,
    won,
)
from dupeproof.testing.runtime_async import sleep, together


class AsyncBatchCases(AsyncStoreCase):
    async def test_a_batch_is_answered_in_order(self, store: AsyncStore) -> None:
        keys = [new_key() for _ in range(30)]
        for key in keys[::3]:
            await finish(store, key, await won(store, key), key)
        for key in keys[1::3]:
            await won(store, key)
        answers = await store.claim([ClaimRequest(key, new_token(), terms()) for key in keys])
        assert [type(answer) for answer in answers] == [outcomes.Done, outcomes.Busy, outcomes.Won] * 10
        assert [each.result for each in answers if isinstance(each, outcomes.Done)] == keys[::3]

    async def test_of_a_key_twice_in_a_batch_the_first_wins(self, store: AsyncStore) -> None:
        key, token = new_key(), new_token()
        first, second = await store.claim(
            [ClaimRequest(key, token, terms()), ClaimRequest(key, new_token(), terms())]
        )
        assert first == outcomes.Won(1)
        assert isinstance(second, outcomes.Busy)
        assert await finish(store, key, token)

    async def test_a_batch_may_be_large(self, store: AsyncStore) -> None:
        claims = [ClaimRequest(new_key(), new_token(), terms()) for _ in range(1_000)]
        assert await store.claim(claims) == [outcomes.Won(1)] * 1_000
        changes = [Finish(each.key, each.token, HOUR, each.key, "raw") for each in claims]
        changes[500] = Finish(claims[500].key, new_token(), HOUR, b"", "raw")
        assert await store.finish(changes) == [number != 500 for number in range(1_000)]
        found = await store.get([each.key for each in claims])
        assert [None if each is None else each.record.result for each in found[:3]] == [
            c.key for c in claims[:3]
        ]

    async def test_finishing_and_resolving_may_stand_in_one_batch(self, store: AsyncStore) -> None:
        running, failed = new_key(), new_key()
        first, second = await won(store, running), await won(store, failed)
        await fail(store, failed, second)
        changes = [
            Finish(failed, second, HOUR, b"2", "json", new_token()),
            Finish(running, first, HOUR, b"1", "json"),
            Finish(failed, second, HOUR, b"3", "json"),
        ]
        assert await store.finish(changes) == [True, True, False]
        assert await claim(store, failed, new_token()) == outcomes.Done(b"2", "json", 1)
        assert await claim(store, running, new_token()) == outcomes.Done(b"1", "json", 1)

    async def test_every_verb_takes_many(self, store: AsyncStore) -> None:
        claims = [ClaimRequest(new_key(), new_token(), terms()) for _ in range(4)]
        stranger = new_token()
        await store.claim(claims)
        assert await store.renew([Renew(c.key, c.token, HOUR, HOUR) for c in claims]) == [True] * 4
        mixed = [c.token if number % 2 else stranger for number, c in enumerate(claims)]
        keys = [c.key for c in claims]
        failures = [Fail(key, token, HOUR, "E") for key, token in zip(keys, mixed, strict=True)]
        assert await store.fail(failures) == [False, True] * 2
        releases = [Release(c.key, c.token, HOUR) for c in claims]
        assert await store.release(releases) == [True, False] * 2

    async def test_an_empty_batch_is_no_trouble(self, store: AsyncStore) -> None:
        assert await store.claim([]) == []
        assert await store.finish([]) == []
        assert await store.fail([]) == []
        assert await store.release([]) == []
        assert await store.renew([]) == []
        assert await store.get([]) == []
        assert await store.forget([]) == []

    async def test_two_batches_over_the_same_keys_do_not_lock_each_other_up(self, store: AsyncStore) -> None:
        keys = [new_key() for _ in range(200)]

        async def work(number: int) -> int:
            order = keys if number % 2 else keys[::-1]
            answers = await store.claim([ClaimRequest(key, new_token(), terms()) for key in order])
            return sum(isinstance(answer, outcomes.Won) for answer in answers)

        assert sum(await together(8, work)) == 200


class AsyncMarkCases(AsyncStoreCase):
    async def test_a_mark_is_new_once(self, seen_set: AsyncSeenSet) -> None:
        key = new_key()
        assert await mark(seen_set, key)
        assert not await mark(seen_set, key)

    async def test_one_of_many_markers_is_first(self, seen_set: AsyncSeenSet) -> None:
        key = new_key()

        async def attempt(_number: int) -> bool:
            return await mark(seen_set, key)

        assert sum(await together(32, attempt)) == 1

    async def test_marks_in_a_batch_are_answered_in_order_the_first_of_equals_being_new(
        self, seen_set: AsyncSeenSet
    ) -> None:
        known, twice, new = new_key(), new_key(), new_key()
        await mark(seen_set, known)
        answers = await seen_set.mark([Mark(key, HOUR) for key in (twice, known, new, twice, known)])
        assert answers == [True, False, True, False, False]

    async def test_a_large_batch_of_marks(self, seen_set: AsyncSeenSet) -> None:
        keys = [new_key() for _ in range(2_000)]
        await seen_set.mark([Mark(key, HOUR) for key in keys[::2]])
        assert await seen_set.mark([Mark(key, HOUR) for key in keys]) == [False, True] * 1_000

    async def test_a_mark_is_forgotten_after_its_window_which_duplicates_do_not_lengthen(
        self, seen_set: AsyncSeenSet
    ) -> None:
        key = new_key()
        await mark(seen_set, key, window=4 * SHORT)
        await after(SHORT)
        assert not await mark(seen_set, key, window=HOUR)
        await after(3 * SHORT)
        assert await seen_set.marks([key]) == [None]
        assert await mark(seen_set, key)

    async def test_metadata_stays_with_the_mark_that_was_first(self, seen_set: AsyncSeenSet) -> None:
        key = new_key()
        await mark(seen_set, key, meta=b'{"from":"eu-1"}')
        await mark(seen_set, key, meta=b'{"from":"us-2"}')
        [found, unknown] = await seen_set.marks([key, new_key()])
        assert found is not None
        assert found.meta == b'{"from":"eu-1"}'
        assert unknown is None

    async def test_a_mark_is_taken_back_by_its_maker_only(self, seen_set: AsyncSeenSet) -> None:
        key, token = new_key(), new_token()
        await mark(seen_set, key, token=token, meta=b"{}")
        assert await seen_set.unmark([Mark(key, HOUR, new_token())]) == [False]
        assert not await mark(seen_set, key)
        assert await seen_set.unmark([Mark(key, HOUR, token), Mark(new_key(), HOUR, token)]) == [True, False]
        assert await mark(seen_set, key)

    async def test_a_mark_that_expired_and_was_made_anew_is_not_its_first_makers(
        self, seen_set: AsyncSeenSet
    ) -> None:
        key, token = new_key(), new_token()
        await mark(seen_set, key, token=token, window=SHORT)
        await after(SHORT)
        await mark(seen_set, key, token=new_token())
        assert await seen_set.unmark([Mark(key, HOUR, token)]) == [False]

    async def test_marks_and_records_of_one_key_live_apart(
        self, store: AsyncStore, seen_set: AsyncSeenSet
    ) -> None:
        key = new_key()
        assert await mark(seen_set, key)
        assert await claim(store, key, new_token()) == outcomes.Won(1)
        other = new_key()
        await won(store, other)
        assert await mark(seen_set, other)

    async def test_forgetting_removes_mark_and_record(
        self, store: AsyncStore, seen_set: AsyncSeenSet
    ) -> None:
        marked, claimed, both, neither = (new_key() for _ in range(4))
        await mark(seen_set, marked)
        token = await won(store, claimed)
        await mark(seen_set, both)
        await won(store, both)
        assert await store.forget([marked, claimed, both, neither]) == [True, True, True, False]
        assert await mark(seen_set, marked)
        assert not await finish(store, claimed, token)
        assert await claim(store, both, new_token()) == outcomes.Won(1)

    async def test_purging_leaves_everything_that_is_not_expired(
        self, store: AsyncStore, seen_set: AsyncSeenSet
    ) -> None:
        gone, kept, held, open_claim, done = (new_key() for _ in range(5))
        await mark(seen_set, gone, window=SHORT)
        await finish(store, gone, await won(store, gone), window=SHORT)
        await mark(seen_set, kept)
        await won(store, held, terms(lease=SHORT, window=SHORT, hold=True))
        await won(store, open_claim)
        await finish(store, done, await won(store, done))
        failed = new_key()
        await fail(store, failed, await won(store, failed))
        await after(3 * SHORT)
        while removed := await store.purge(1):
            assert removed == 1
        assert (await store.stats()).expired == 0
        assert not await mark(seen_set, kept)
        assert await claim(store, held, new_token()) == outcomes.Held(1)
        assert isinstance(await claim(store, open_claim, new_token()), outcomes.Busy)
        assert isinstance(await claim(store, done, new_token()), outcomes.Done)
        assert await claim(store, failed, new_token()) == outcomes.Won(2)

    async def test_stats_count_what_is_there(self, store: AsyncStore, seen_set: AsyncSeenSet) -> None:
        more: list[tuple[int, int, int]] = []
        while (3, 1, 1) not in more and len(
            more
        ) < 5:  # what others left may expire meanwhile, and count for less
            before = await store.stats()
            for _ in range(3):
                await mark(seen_set, new_key())
            await won(store, new_key())
            done = new_key()
            await finish(store, done, await won(store, done))
            after = await store.stats()
            running = after.records.get("running", 0) - before.records.get("running", 0)
            finished = after.records.get("done", 0) - before.records.get("done", 0)
            more.append((after.marks - before.marks, running, finished))
        assert (3, 1, 1) in more


class AsyncLifeCases(AsyncStoreCase):
    async def test_it_says_what_it_is(self, store: AsyncStore) -> None:
        health = await store.check()
        assert health.store
        assert health.version

    async def test_closing_twice_is_fine_and_so_is_using_it_again(self, store: AsyncStore) -> None:
        key = new_key()
        await won(store, key)
        await store.close()
        await store.close()
        assert await claim(store, new_key(), new_token()) == outcomes.Won(1)


class AsyncWaitCases(AsyncStoreCase):
    """For stores that notify when a key has changed. The others are polled, and need not pass this."""

    async def test_waiting_ends_when_the_key_is_finished(self, store: AsyncStore) -> None:
        assert isinstance(store, AsyncWaitable)
        key = new_key()
        token = await won(store, key)
        waitable: AsyncWaitable = store

        async def work(number: int) -> None:
            if number == 0:
                await sleep(0.05)
                await finish(store, key, token)
            else:
                await waitable.wait(key, 30)

        await together(4, work)
        await waitable.wait(new_key(), 30)
