"""The one decision on a number, against a model that forgets nothing; and every store against the decision."""

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from dupeproof.core.protocols import Sequenced, ability
from dupeproof.core.sequences import LARGEST, Number, Verdict, decide
from dupeproof.stores import open_store
from dupeproof.testing.sequences import decided
from support.stores import EVERY, on

NEAR = st.integers(0, 40)
ANY = st.one_of(NEAR, st.integers(0, 5_000), st.integers(LARGEST - 50, LARGEST))
GAPS = st.sampled_from([1, 2, 7, 8, 9, 16, 31, 1_024])
STEPS = st.lists(st.tuples(st.sampled_from("ab"), st.integers(0, 2), ANY, GAPS), max_size=40)


def numbers(steps, salt=b""):
    return [
        Number((salt + name.encode()).rjust(16, b"-"), epoch, sequence, gap)
        for name, epoch, sequence, gap in steps
    ]


@given(st.lists(st.tuples(st.integers(0, 2), ANY)), GAPS)
def test_the_decision_agrees_with_a_model_that_forgets_nothing(steps, gap):
    came, row = set(), None
    newest = -1
    for epoch, sequence in steps:
        verdict, changed = decide(row, Number(b"k" * 16, epoch, sequence, gap))
        row = row if changed is None else changed
        if epoch < newest:
            assert verdict is Verdict.FENCED
            continue
        if epoch > newest:
            newest, came = epoch, set()
        if came and sequence <= max(came) - gap:
            assert verdict is Verdict.TOO_OLD
        else:
            assert verdict is (Verdict.DUPLICATE if sequence in came else Verdict.FRESH)
            came.add(sequence)


@given(STEPS)
def test_no_number_is_fresh_twice_even_when_the_gap_changes_on_the_way(steps):
    fresh = [
        (number.key, number.epoch, number.sequence)
        for number, verdict in zip(numbers(steps), decided(numbers(steps)), strict=True)
        if verdict
    ]
    assert len(fresh) == len(set(fresh))


@given(st.integers(0, LARGEST), GAPS)
def test_a_jump_of_any_length_leaves_a_row_no_larger_than_the_gap(sequence, gap):
    _, row = decide(None, Number(b"k" * 16, 0, 0, gap))
    _, jumped = decide(row, Number(b"k" * 16, 0, sequence, gap))
    assert (jumped or row).seen.bit_length() <= gap


@on(*EVERY)
def test_every_store_decides_as_the_function_does(url):
    store = ability(open_store(url), Sequenced)
    salt = iter(range(10_000))

    @settings(max_examples=60, deadline=None, suppress_health_check=[HealthCheck.too_slow])
    @given(STEPS, st.integers(1, 9))
    def check(steps, size):
        wanted = numbers(steps, b"%d" % next(salt))
        got = [
            verdict
            for start in range(0, len(wanted), size)
            for verdict in store.advance(wanted[start : start + size])
        ]
        assert got == decided(wanted)

    check()
    store.close()


def test_only_fresh_is_true():
    assert [verdict for verdict in Verdict if verdict] == [Verdict.FRESH]
    with pytest.raises(ValueError):
        Verdict("unknown")
