# Written by tools/twins.py from src/dupeproof/testing/sequences_async.py; change that file instead.
"""Conformance: numbered messages, each decided as core/sequences.py decides it."""

import random
from collections.abc import Sequence

import pytest

from dupeproof.core.protocols import Sequenced, Store, ability
from dupeproof.core.sequences import Number, Row, Verdict, decide
from dupeproof.testing.base import StoreCase, new_key
from dupeproof.testing.runtime import together


def decided(numbers: Sequence[Number]) -> list[Verdict]:
    """What the function says of the same numbers, one after the other."""
    rows: dict[bytes, Row] = {}
    verdicts = []
    for number in numbers:
        verdict, changed = decide(rows.get(number.key), number)
        verdicts.append(verdict)
        if changed is not None:
            rows[number.key] = changed
    return verdicts


class SequenceCases(StoreCase):
    @pytest.fixture
    def sequenced(self, store: Store) -> Sequenced:
        found = ability(store, Sequenced)  # type: ignore[type-abstract]
        assert found is not None
        return found

    def test_each_epoch_and_number_gets_its_verdict(self, sequenced: Sequenced) -> None:
        key = new_key()
        asked = [(1, 5), (1, 3), (1, 5), (1, 90), (1, 82), (1, 83), (0, 91), (2, 0), (1, 91)]
        numbers = [Number(key, epoch, sequence, 8) for epoch, sequence in asked]
        assert sequenced.advance(numbers) == decided(numbers)

    def test_a_large_batch_of_many_producers(self, sequenced: Sequenced) -> None:
        keys = [new_key() for _ in range(100)]
        numbers = [Number(keys[n * 37 % 100], n % 7 // 5, n * n % 41, 16) for n in range(2_000)]
        assert len(set(decided(numbers))) == len(Verdict)
        assert sequenced.advance(numbers) == decided(numbers)

    def test_an_empty_batch_of_numbers_is_no_trouble(self, sequenced: Sequenced) -> None:
        assert sequenced.advance([]) == []
        assert sequenced.retire([]) == []

    def test_of_many_who_bring_a_number_one_is_first(self, sequenced: Sequenced) -> None:
        numbers = [Number(key, 0, sequence, 64) for key in (new_key(), new_key()) for sequence in range(20)]

        def attempt(_number: int) -> list[Verdict]:
            return sequenced.advance(numbers)

        for verdicts in zip(*together(8, attempt), strict=True):
            assert sorted(verdicts) == [Verdict.DUPLICATE] * 7 + [Verdict.FRESH]

    def test_batches_of_the_same_producers_do_not_lock_each_other_up(self, sequenced: Sequenced) -> None:
        keys = [new_key() for _ in range(30)]
        sequenced.advance([Number(key, 0, 0, 64) for key in keys[::2]])  # half of them are known

        def attempt(number: int) -> list[Verdict]:
            shuffled = random.sample(keys, len(keys))
            return sequenced.advance([Number(key, 0, number + 1, 64) for key in shuffled])

        for verdicts in together(8, attempt):
            assert verdicts == [Verdict.FRESH] * len(keys)

    def test_a_producer_that_was_retired_is_new(self, sequenced: Sequenced) -> None:
        key = new_key()
        before = (sequenced.sequences()).producers
        sequenced.advance([Number(key, 9, 9, 8)])
        assert (sequenced.sequences()).producers == before + 1
        assert sequenced.retire([key, new_key()]) == [True, False]
        assert (sequenced.sequences()).producers == before
        assert sequenced.advance([Number(key, 0, 0, 8)]) == [Verdict.FRESH]
