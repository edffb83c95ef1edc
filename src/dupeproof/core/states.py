"""The life of a key: one table of what may happen in which state, and what comes of it.

Theory of operation. A key is FREE until someone claims it. The claim makes it RUNNING for the length of a
lease, which a heartbeat renews. The owner finishes (DONE), fails (FAILED, or DEAD on the last attempt), holds the key
because the work may have happened (HELD), or hands the claim back. If the owner vanishes the lease runs out, and what was promised at claim time decides: under
`rerun` the key is ABANDONED and the next claim takes it over; under `hold` it is HELD until someone resolves it.

Some things follow that are easy to get wrong elsewhere, so they stand in the table:

* An owner that comes back late, before anyone took the key over, still owns it: FINISH is allowed from ABANDONED
  and HELD. Once someone else has claimed, the owner's token no longer matches, and it is refused.
* FAILED, ABANDONED and FREE all leave through the same CLAIM. There is no path that runs without a claim.
* HELD and DEAD wait for a person, so no window ends them.
* A person can err. What was resolved by hand is RESOLVED until the first caller is given it, and may be resolved
  anew until then. That caller's claim makes it DONE, and nothing inside the window changes a result that somebody has.

RUNNING, DONE, RESOLVED, FAILED and DEAD are stored. FREE is the absence of a record. ABANDONED and HELD are RUNNING
records whose lease is over, seen by the clock of the store; an owner that holds its key ends its own lease. The table has one reading for each place that writes a record:

* memory and SQLite: `core/decisions.py`, in Python
* Redis: `stores/redis/scripts`, in Lua
* PostgreSQL: `dupeproof_*_v1` in `stores/postgres/migrations`, in SQL
* the caller's own transaction, on PostgreSQL and SQLite: `stores/record_statements.py`

The conformance suite walks the table on every store. `tests/faults/test_same_answers.py` compares all readings with the
first one, step by step.
"""

from enum import StrEnum


class State(StrEnum):
    FREE = "free"
    RUNNING = "running"
    ABANDONED = "abandoned"
    HELD = "held"
    DONE = "done"
    RESOLVED = "resolved"
    FAILED = "failed"
    DEAD = "dead"


class Event(StrEnum):
    CLAIM = "claim"
    CLAIM_EXHAUSTED = "claim, attempts used up"
    REPLAY = "claim, replayed"
    FINISH = "finish"
    FAIL = "fail"
    FAIL_LAST = "fail, last attempt"
    HOLD = "hold"
    RELEASE = "release"
    RENEW = "renew"
    TAKE = "take, to ask whether it happened"
    RESOLVE = "resolve"
    REOPEN = "reopen"
    FORGET = "forget"
    LEASE_OVER = "lease over"
    LEASE_OVER_HOLD = "lease over, hold"
    WINDOW_OVER = "window over"


_OWNER_VERBS = {
    Event.FINISH: State.DONE,
    Event.FAIL: State.FAILED,
    Event.FAIL_LAST: State.DEAD,
    Event.HOLD: State.HELD,
    Event.RELEASE: State.FREE,
    Event.RENEW: State.RUNNING,
    Event.FORGET: State.FREE,
}

TABLE: dict[State, dict[Event, State]] = {
    State.FREE: {
        Event.CLAIM: State.RUNNING,
    },
    State.RUNNING: {
        **_OWNER_VERBS,
        Event.LEASE_OVER: State.ABANDONED,
        Event.LEASE_OVER_HOLD: State.HELD,
    },
    State.ABANDONED: {
        **_OWNER_VERBS,
        Event.TAKE: State.RUNNING,
        Event.CLAIM: State.RUNNING,
        Event.CLAIM_EXHAUSTED: State.DEAD,
        Event.RESOLVE: State.RESOLVED,
        Event.REOPEN: State.FREE,
        Event.WINDOW_OVER: State.FREE,
    },
    State.HELD: {
        **_OWNER_VERBS,
        Event.TAKE: State.RUNNING,
        Event.RESOLVE: State.RESOLVED,
        Event.REOPEN: State.FREE,
    },
    State.RESOLVED: {
        Event.REPLAY: State.DONE,
        Event.RESOLVE: State.RESOLVED,
        Event.FORGET: State.FREE,
        Event.WINDOW_OVER: State.FREE,
    },
    State.DONE: {
        Event.REPLAY: State.DONE,
        Event.FORGET: State.FREE,
        Event.WINDOW_OVER: State.FREE,
    },
    State.FAILED: {
        Event.CLAIM: State.RUNNING,
        Event.CLAIM_EXHAUSTED: State.DEAD,
        Event.RESOLVE: State.RESOLVED,
        Event.REOPEN: State.FREE,
        Event.FORGET: State.FREE,
        Event.WINDOW_OVER: State.FREE,
    },
    State.DEAD: {
        Event.RESOLVE: State.RESOLVED,
        Event.REOPEN: State.FREE,
        Event.FORGET: State.FREE,
    },
}


def allows(state: State, event: Event) -> bool:
    return event in TABLE[state]
