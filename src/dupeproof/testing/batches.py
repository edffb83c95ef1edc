# Written by tools/twins.py from src/dupeproof/testing/batches_async.py; change that file instead.
"""Conformance: batches, marks, forgetting, purging, and the store as a whole."""

from dupeproof.core import outcomes
from dupeproof.core.protocols import SeenSet, Store, Waitable
from dupeproof.core.records import ClaimRequest, Fail, Finish, Mark, Release, Renew
from dupeproof.testing.base import (
    HOUR,
    SHORT,
    StoreCase,
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
from dupeproof.testing.runtime import sleep, together


class BatchCases(StoreCase):
    def test_a_batch_is_answered_in_order(self, store: Store) -> None:
        keys = [new_key() for _ in range(30)]
        for key in keys[::3]:
            finish(store, key, won(store, key), key)
        for key in keys[1::3]:
            won(store, key)
        answers = store.claim([ClaimRequest(key, new_token(), terms()) for key in keys])
        assert [type(answer) for answer in answers] == [outcomes.Done, outcomes.Busy, outcomes.Won] * 10
        assert [each.result for each in answers if isinstance(each, outcomes.Done)] == keys[::3]

    def test_of_a_key_twice_in_a_batch_the_first_wins(self, store: Store) -> None:
        key, token = new_key(), new_token()
        first, second = store.claim(
            [ClaimRequest(key, token, terms()), ClaimRequest(key, new_token(), terms())]
        )
        assert first == outcomes.Won(1)
        assert isinstance(second, outcomes.Busy)
        assert finish(store, key, token)

    def test_a_batch_may_be_large(self, store: Store) -> None:
        claims = [ClaimRequest(new_key(), new_token(), terms()) for _ in range(1_000)]
        assert store.claim(claims) == [outcomes.Won(1)] * 1_000
        changes = [Finish(each.key, each.token, HOUR, each.key, "raw") for each in claims]
        changes[500] = Finish(claims[500].key, new_token(), HOUR, b"", "raw")
        assert store.finish(changes) == [number != 500 for number in range(1_000)]
        found = store.get([each.key for each in claims])
        assert [None if each is None else each.record.result for each in found[:3]] == [
            c.key for c in claims[:3]
        ]

    def test_finishing_and_resolving_may_stand_in_one_batch(self, store: Store) -> None:
        running, failed = new_key(), new_key()
        first, second = won(store, running), won(store, failed)
        fail(store, failed, second)
        changes = [
            Finish(failed, second, HOUR, b"2", "json", new_token()),
            Finish(running, first, HOUR, b"1", "json"),
            Finish(failed, second, HOUR, b"3", "json"),
        ]
        assert store.finish(changes) == [True, True, False]
        assert claim(store, failed, new_token()) == outcomes.Done(b"2", "json", 1)
        assert claim(store, running, new_token()) == outcomes.Done(b"1", "json", 1)

    def test_every_verb_takes_many(self, store: Store) -> None:
        claims = [ClaimRequest(new_key(), new_token(), terms()) for _ in range(4)]
        stranger = new_token()
        store.claim(claims)
        assert store.renew([Renew(c.key, c.token, HOUR, HOUR) for c in claims]) == [True] * 4
        mixed = [c.token if number % 2 else stranger for number, c in enumerate(claims)]
        keys = [c.key for c in claims]
        failures = [Fail(key, token, HOUR, "E") for key, token in zip(keys, mixed, strict=True)]
        assert store.fail(failures) == [False, True] * 2
        releases = [Release(c.key, c.token, HOUR) for c in claims]
        assert store.release(releases) == [True, False] * 2

    def test_an_empty_batch_is_no_trouble(self, store: Store) -> None:
        assert store.claim([]) == []
        assert store.finish([]) == []
        assert store.fail([]) == []
        assert store.release([]) == []
        assert store.renew([]) == []
        assert store.get([]) == []
        assert store.forget([]) == []

    def test_two_batches_over_the_same_keys_do_not_lock_each_other_up(self, store: Store) -> None:
        keys = [new_key() for _ in range(200)]

        def work(number: int) -> int:
            order = keys if number % 2 else keys[::-1]
            answers = store.claim([ClaimRequest(key, new_token(), terms()) for key in order])
            return sum(isinstance(answer, outcomes.Won) for answer in answers)

        assert sum(together(8, work)) == 200


class MarkCases(StoreCase):
    def test_a_mark_is_new_once(self, seen_set: SeenSet) -> None:
        key = new_key()
        assert mark(seen_set, key)
        assert not mark(seen_set, key)

    def test_one_of_many_markers_is_first(self, seen_set: SeenSet) -> None:
        key = new_key()

        def attempt(_number: int) -> bool:
            return mark(seen_set, key)

        assert sum(together(32, attempt)) == 1

    def test_marks_in_a_batch_are_answered_in_order_the_first_of_equals_being_new(
        self, seen_set: SeenSet
    ) -> None:
        known, twice, new = new_key(), new_key(), new_key()
        mark(seen_set, known)
        answers = seen_set.mark([Mark(key, HOUR) for key in (twice, known, new, twice, known)])
        assert answers == [True, False, True, False, False]

    def test_a_large_batch_of_marks(self, seen_set: SeenSet) -> None:
        keys = [new_key() for _ in range(2_000)]
        seen_set.mark([Mark(key, HOUR) for key in keys[::2]])
        assert seen_set.mark([Mark(key, HOUR) for key in keys]) == [False, True] * 1_000

    def test_a_mark_is_forgotten_after_its_window_which_duplicates_do_not_lengthen(
        self, seen_set: SeenSet
    ) -> None:
        key = new_key()
        mark(seen_set, key, window=4 * SHORT)
        after(SHORT)
        assert not mark(seen_set, key, window=HOUR)
        after(3 * SHORT)
        assert seen_set.marks([key]) == [None]
        assert mark(seen_set, key)

    def test_metadata_stays_with_the_mark_that_was_first(self, seen_set: SeenSet) -> None:
        key = new_key()
        mark(seen_set, key, meta=b'{"from":"eu-1"}')
        mark(seen_set, key, meta=b'{"from":"us-2"}')
        [found, unknown] = seen_set.marks([key, new_key()])
        assert found is not None
        assert found.meta == b'{"from":"eu-1"}'
        assert unknown is None

    def test_a_mark_is_taken_back_by_its_maker_only(self, seen_set: SeenSet) -> None:
        key, token = new_key(), new_token()
        mark(seen_set, key, token=token, meta=b"{}")
        assert seen_set.unmark([Mark(key, HOUR, new_token())]) == [False]
        assert not mark(seen_set, key)
        assert seen_set.unmark([Mark(key, HOUR, token), Mark(new_key(), HOUR, token)]) == [True, False]
        assert mark(seen_set, key)

    def test_a_mark_that_expired_and_was_made_anew_is_not_its_first_makers(self, seen_set: SeenSet) -> None:
        key, token = new_key(), new_token()
        mark(seen_set, key, token=token, window=SHORT)
        after(SHORT)
        mark(seen_set, key, token=new_token())
        assert seen_set.unmark([Mark(key, HOUR, token)]) == [False]

    def test_marks_and_records_of_one_key_live_apart(self, store: Store, seen_set: SeenSet) -> None:
        key = new_key()
        assert mark(seen_set, key)
        assert claim(store, key, new_token()) == outcomes.Won(1)
        other = new_key()
        won(store, other)
        assert mark(seen_set, other)

    def test_forgetting_removes_mark_and_record(self, store: Store, seen_set: SeenSet) -> None:
        marked, claimed, both, neither = (new_key() for _ in range(4))
        mark(seen_set, marked)
        token = won(store, claimed)
        mark(seen_set, both)
        won(store, both)
        assert store.forget([marked, claimed, both, neither]) == [True, True, True, False]
        assert mark(seen_set, marked)
        assert not finish(store, claimed, token)
        assert claim(store, both, new_token()) == outcomes.Won(1)

    def test_purging_leaves_everything_that_is_not_expired(self, store: Store, seen_set: SeenSet) -> None:
        gone, kept, held, open_claim, done = (new_key() for _ in range(5))
        mark(seen_set, gone, window=SHORT)
        finish(store, gone, won(store, gone), window=SHORT)
        mark(seen_set, kept)
        won(store, held, terms(lease=SHORT, window=SHORT, hold=True))
        won(store, open_claim)
        finish(store, done, won(store, done))
        failed = new_key()
        fail(store, failed, won(store, failed))
        after(3 * SHORT)
        while removed := store.purge(1):
            assert removed == 1
        assert (store.stats()).expired == 0
        assert not mark(seen_set, kept)
        assert claim(store, held, new_token()) == outcomes.Held(1)
        assert isinstance(claim(store, open_claim, new_token()), outcomes.Busy)
        assert isinstance(claim(store, done, new_token()), outcomes.Done)
        assert claim(store, failed, new_token()) == outcomes.Won(2)

    def test_stats_count_what_is_there(self, store: Store, seen_set: SeenSet) -> None:
        more: list[tuple[int, int, int]] = []
        while (3, 1, 1) not in more and len(
            more
        ) < 5:  # what others left may expire meanwhile, and count for less
            before = store.stats()
            for _ in range(3):
                mark(seen_set, new_key())
            won(store, new_key())
            done = new_key()
            finish(store, done, won(store, done))
            after = store.stats()
            running = after.records.get("running", 0) - before.records.get("running", 0)
            finished = after.records.get("done", 0) - before.records.get("done", 0)
            more.append((after.marks - before.marks, running, finished))
        assert (3, 1, 1) in more


class LifeCases(StoreCase):
    def test_it_says_what_it_is(self, store: Store) -> None:
        health = store.check()
        assert health.store
        assert health.version

    def test_closing_twice_is_fine_and_so_is_using_it_again(self, store: Store) -> None:
        key = new_key()
        won(store, key)
        store.close()
        store.close()
        assert claim(store, new_key(), new_token()) == outcomes.Won(1)


class WaitCases(StoreCase):
    """For stores that notify when a key has changed. The others are polled, and need not pass this."""

    def test_waiting_ends_when_the_key_is_finished(self, store: Store) -> None:
        assert isinstance(store, Waitable)
        key = new_key()
        token = won(store, key)
        waitable: Waitable = store

        def work(number: int) -> None:
            if number == 0:
                sleep(0.05)
                finish(store, key, token)
            else:
                waitable.wait(key, 30)

        together(4, work)
        waitable.wait(new_key(), 30)
