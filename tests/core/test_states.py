"""The state table is whole, and the pure transitions do what it says and nothing else."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from dupeproof.core import decisions, outcomes
from dupeproof.core.records import NEVER, ClaimRequest, Fail, Finish, Record, Release, Renew, Terms
from dupeproof.core.states import TABLE, Event, State

NOW = 1_000_000
MINE, OTHER = b"m" * 8, b"o" * 8


def records(tokens=(MINE, OTHER)):
    return st.builds(
        Record,
        state=st.sampled_from([State.RUNNING, State.DONE, State.FAILED, State.DEAD]),
        token=st.sampled_from(tokens),
        attempt=st.integers(1, 4),
        fingerprint=st.sampled_from([b"", b"1" * 16, b"2" * 16]),
        namespace=st.just("n"),
        hold=st.booleans(),
        created_at=st.just(NOW - 500),
        lease_until=st.sampled_from([NOW - 1, NOW, NOW + 1, NOW + 1_000]),
        expires_at=st.sampled_from([NEVER, NOW, NOW + 1, NOW + 9_000]),
    )


def test_every_state_has_a_row_and_can_be_left():
    assert set(TABLE) == set(State)
    assert all(TABLE[state] for state in State)


def test_every_state_but_free_can_be_reached():
    reached = {after for events in TABLE.values() for after in events.values()}
    assert reached == set(State)


def test_only_a_claim_leads_to_running_from_elsewhere():
    for state, events in TABLE.items():
        for event, after in events.items():
            if after is State.RUNNING and state is not State.RUNNING:
                assert event in (Event.CLAIM, Event.RENEW, Event.TAKE)


def test_nothing_leaves_held_but_its_owner_or_a_person():
    assert set(TABLE[State.HELD]) == {
        Event.FINISH, Event.FAIL, Event.FAIL_LAST, Event.HOLD, Event.RELEASE, Event.RENEW, Event.TAKE, Event.RESOLVE,
        Event.REOPEN, Event.FORGET,
    }  # fmt: skip


@given(st.none() | records(), st.booleans(), st.integers(0, 3), st.sampled_from([b"", b"1" * 16, b"2" * 16]))
def test_a_claim_wins_exactly_what_the_table_lets_it(found, hold, limit, fingerprint):
    request = ClaimRequest(MINE, b"n" * 8, Terms("n", 10, 20, hold, limit), fingerprint)
    outcome, changed = decisions.claim(found, request, NOW)
    situation = State.FREE if found is None else found.situation(NOW)
    if isinstance(outcome, outcomes.Won):
        assert situation in (State.FREE, State.FAILED, State.ABANDONED)
        assert changed is not None
        assert changed.situation(NOW) is State.RUNNING
        assert changed.token == request.token
        assert outcome.took_over is (situation is State.ABANDONED)
    elif isinstance(outcome, outcomes.Dead) and outcome.newly:
        assert changed is not None
        assert changed.state is State.DEAD
        assert 0 < limit <= outcome.attempt
    else:
        assert changed is None
        expected = {
            outcomes.Done: State.DONE,
            outcomes.Busy: State.RUNNING,
            outcomes.Held: State.HELD,
            outcomes.Dead: State.DEAD,
        }
        assert isinstance(outcome, outcomes.Mismatch) or expected[type(outcome)] is situation


@given(records(), st.sampled_from(["finish", "fail", "release", "renew"]))
def test_a_stranger_changes_nothing(found, verb):
    changes = {
        "finish": Finish(b"k", b"s" * 8, 20, b"r", "json"),
        "fail": Fail(b"k", b"s" * 8, 20, "E"),
        "release": Release(b"k", b"s" * 8, 20),
        "renew": Renew(b"k", b"s" * 8, 10, 20),
    }
    assert getattr(decisions, verb)(found, changes[verb], NOW) is None


@given(records(tokens=(MINE,)), st.binary(min_size=0, max_size=8).filter(lambda b: len(b) in (0, 8)))
def test_a_finish_leaves_done_or_is_refused(found, resolver):
    after = decisions.finish(found, Finish(b"k", MINE, 20, b"r", "json", resolver), NOW)
    situation = found.situation(NOW)
    if after is None:
        allowed = TABLE[situation]
        assert (Event.RESOLVE if resolver else Event.FINISH) not in allowed
    else:
        assert after.state is (State.RESOLVED if resolver else State.DONE)
        assert after.expires_at in (NOW + 20, found.expires_at)


@pytest.mark.parametrize(
    ("verb", "change"),
    [
        (decisions.finish, Finish(b"k", MINE, 20, b"r", "json")),
        (decisions.fail, Fail(b"k", MINE, 20, "E")),
        (decisions.release, Release(b"k", MINE, 20)),
        (decisions.release, Release(b"k", MINE, 20, reopen=True)),
        (decisions.renew, Renew(b"k", MINE, 10, 20)),
    ],
)
def test_nothing_can_be_done_to_a_free_key(verb, change):
    assert verb(None, change, NOW) is None
