"""Conformance: numbered messages, each decided as core/sequences.py decides it."""

import random
from collections.abc import Sequence

import pytest

from dupeproof.core.protocols import AsyncSequenced, AsyncStore, ability
from dupeproof.core.sequences import Number, Row, Verdict, decide
from dupeproof.testing.base_async import AsyncStoreCase, new_key
from dupeproof.testing.runtime_async import together


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


class AsyncSequenceCases(AsyncStoreCase):
    @pytest.fixture
    def sequenced(self, store: AsyncStore) -> AsyncSequenced:
        found = ability(store, AsyncSequenced)  # type: ignore[type-abstract]
        assert found is not None
        return found

    async def test_each_epoch_and_number_gets_its_verdict(self, sequenced: AsyncSequenced) -> None:
        key = new_key()
        asked = [(1, 5), (1, 3), (1, 5), (1, 90), (1, 82), (1, 83), (0, 91), (2, 0), (1, 91)]
        numbers = [Number(key, epoch, sequence, 8) for epoch, sequence in asked]
        assert await sequenced.advance(numbers) == decided(numbers)

    async def test_a_large_batch_of_many_producers(self, sequenced: AsyncSequenced) -> None:
        keys = [new_key() for _ in range(100)]
        numbers = [Number(keys[n * 37 % 100], n % 7 // 5, n * n % 41, 16) for n in range(2_000)]
        assert len(set(decided(numbers))) == len(Verdict)
        assert await sequenced.advance(numbers) == decided(numbers)

    async def test_an_empty_batch_of_numbers_is_no_trouble(self, sequenced: AsyncSequenced) -> None:
        assert await sequenced.advance([]) == []
        assert await sequenced.retire([]) == []

    async def test_of_many_who_bring_a_number_one_is_first(self, sequenced: AsyncSequenced) -> None:
        numbers = [Number(key, 0, sequence, 64) for key in (new_key(), new_key()) for sequence in range(20)]

        async def attempt(_number: int) -> list[Verdict]:
            return await sequenced.advance(numbers)

        for verdicts in zip(*await together(8, attempt), strict=True):
            assert sorted(verdicts) == [Verdict.DUPLICATE] * 7 + [Verdict.FRESH]

    async def test_batches_of_the_same_producers_do_not_lock_each_other_up(
        self, sequenced: AsyncSequenced
    ) -> None:
        keys = [new_key() for _ in range(30)]
        await sequenced.advance([Number(key, 0, 0, 64) for key in keys[::2]])  # half of them are known

        async def attempt(number: int) -> list[Verdict]:
            shuffled = random.sample(keys, len(keys))
            return await sequenced.advance([Number(key, 0, number + 1, 64) for key in shuffled])

        for verdicts in await together(8, attempt):
            assert verdicts == [Verdict.FRESH] * len(keys)

    async def test_a_producer_that_was_retired_is_new(self, sequenced: AsyncSequenced) -> None:
        key = new_key()
        before = (await sequenced.sequences()).producers
        await sequenced.advance([Number(key, 9, 9, 8)])
        assert (await sequenced.sequences()).producers == before + 1
        assert await sequenced.retire([key, new_key()]) == [True, False]
        assert (await sequenced.sequences()).producers == before
        assert await sequenced.advance([Number(key, 0, 0, 8)]) == [Verdict.FRESH]
