"""The state table applied to one record: pure functions for the stores that decide in Python.

Each takes the record found (or None) and the time, and answers the record to store. They return None where the
verb is refused, so a store only reads, calls, and writes, inside one lock or transaction.
"""

from msgspec.structs import replace

from dupeproof.core.outcomes import Busy, Dead, Done, Held, Mismatch, Outcome, Won
from dupeproof.core.records import NEVER, ClaimRequest, Fail, Finish, Record, Release, Renew
from dupeproof.core.states import Event, State, allows

_FIRST = Won(1)


def claim(found: Record | None, request: ClaimRequest, now: int) -> tuple[Outcome, Record | None]:
    """The outcome, and the record to store if anything changed."""
    if found is None or (situation := found.situation(now)) is State.FREE:
        return _FIRST, _running(request, now, 1, now, request.fingerprint)
    if request.fingerprint and found.fingerprint and request.fingerprint != found.fingerprint:
        return Mismatch(), None
    if situation is State.RESOLVED:  # from now on somebody has this result
        return _refusal(found, State.DONE, now), replace(found, state=State.DONE)
    if found.token == request.token:  # the same claim again, after a lost reply
        if found.state is State.RUNNING:
            again = _leased(found, now + request.terms.lease, request.terms.window)
            return Won(found.attempt, took_over=found.took_over), again
        if found.state is State.DEAD:
            return Dead(found.attempt, newly=True), None
        if found.state is State.FAILED:
            return Busy(0), None  # a copy that was under way for long; its maker has failed since
    limit = request.terms.max_attempts
    event = Event.CLAIM_EXHAUSTED if 0 < limit <= found.attempt else Event.CLAIM
    if not allows(situation, event):
        return _refusal(found, situation, now), None
    if event is Event.CLAIM_EXHAUSTED:
        dead = replace(
            found,
            state=State.DEAD,
            token=request.token,
            finished_at=now,
            expires_at=NEVER,
            window=request.terms.window,
            took_over=False,
        )
        return Dead(found.attempt, newly=True), dead
    fingerprint = found.fingerprint or request.fingerprint
    running = _running(request, now, found.attempt + 1, found.created_at, fingerprint, found.result)
    took_over = situation is State.ABANDONED
    return Won(running.attempt, took_over=took_over), replace(running, took_over=took_over)


def finish(found: Record | None, change: Finish, now: int) -> Record | None:
    if found is None or found.token != change.token:
        return None
    situation = found.situation(now)
    if situation is State.DONE and not change.resolver:
        return found  # the same finish again, after a lost reply
    if not allows(situation, Event.RESOLVE if change.resolver else Event.FINISH):
        return None
    return replace(
        found,
        state=State.RESOLVED if change.resolver else State.DONE,
        token=change.resolver or found.token,
        finished_at=now,
        expires_at=now + change.window,
        window=change.window,
        took_over=False,
        codec=change.codec,
        result=change.result,
        error="",
    )


def finish_in_transaction(
    found: Record | None, request: ClaimRequest, attempt: int, result: bytes, codec: str, now: int
) -> Record | None:
    """The finish of a claim by the transaction of its effect, in a database that need not be the claim's own store.

    There the key may be free. Where it is the store, the claim stands there.
    """
    if found is not None and found.situation(now) is not State.FREE and not _runs(found, request.token):
        return None
    return Record(
        state=State.DONE,
        token=request.token,
        attempt=attempt,
        fingerprint=request.fingerprint,
        namespace=request.terms.namespace,
        hold=False if found is None else found.hold,
        created_at=now if found is None else found.created_at,
        lease_until=now if found is None else found.lease_until,
        finished_at=now,
        expires_at=now + request.terms.window,
        codec=codec,
        result=result,
        window=request.terms.window,
        name=request.terms.name if found is None else found.name,
        kept_key=request.kept_key if found is None else found.kept_key,
    )


def fail(found: Record | None, change: Fail, now: int) -> Record | None:
    if found is None:
        return None
    if change.hold:
        return _hold(found, change, now)
    situation = found.situation(now)
    after = State.DEAD if change.dead else State.FAILED
    if situation is after and found.token == change.token:
        return found
    if not _may(found, situation, change.token, Event.FAIL_LAST if change.dead else Event.FAIL):
        return None
    expires_at = NEVER if change.dead else now + change.window
    return replace(
        found,
        state=after,
        finished_at=now,
        expires_at=expires_at,
        window=change.window,
        took_over=False,
        error=change.error,
    )


def _hold(found: Record, change: Fail, now: int) -> Record | None:
    if not _may(found, found.situation(now), change.token, Event.HOLD):
        return None
    lease_until = min(now, change.since or now)  # also of an owner that says so late
    return replace(
        found,
        hold=True,
        lease_until=lease_until,
        expires_at=NEVER,
        window=change.window,
        took_over=False,
        error=change.error,
    )


def release(found: Record | None, change: Release, now: int) -> Record | None:
    """The record to store. One with attempt 0 and no journal means: remove it, the key is as if never claimed."""
    event = Event.REOPEN if change.reopen else Event.RELEASE
    if found is None or not _may(found, found.situation(now), change.token, event):
        return None
    expires_at = now + change.window
    if found.took_over and not change.reopen:
        return replace(
            found,
            attempt=found.attempt - 1,
            lease_until=min(found.lease_until, now),
            expires_at=NEVER if found.hold else expires_at,
            window=change.window,
            took_over=False,
        )
    return replace(
        found,
        state=State.FAILED,
        took_over=False,
        attempt=0 if change.reopen else found.attempt - 1,
        finished_at=now,
        expires_at=expires_at,
        window=change.window,
    )


def renew(found: Record | None, change: Renew, now: int) -> Record | None:
    if found is None:
        return None
    situation = found.situation(now)
    if not change.taker:
        allowed = _may(found, situation, change.token, Event.RENEW)
    else:
        again = situation is State.RUNNING and found.token == change.taker  # after a lost reply
        allowed = again or _may(found, situation, change.token, Event.TAKE)
    if not allowed:
        return None
    changed = replace(found, token=change.taker or found.token, result=change.journal or found.result)
    return _leased(changed, now + change.lease, change.window)


def _leased(found: Record, lease_until: int, window: int) -> Record:
    expires_at = NEVER if found.hold else lease_until + window
    return replace(found, lease_until=lease_until, expires_at=expires_at, window=window)


def _runs(found: Record, token: bytes) -> bool:
    return found.token == token and found.state is State.RUNNING


def _may(found: Record, situation: State, token: bytes, event: Event) -> bool:
    return found.token == token and allows(situation, event)


def _running(
    request: ClaimRequest, now: int, attempt: int, created_at: int, fingerprint: bytes, journal: bytes = b""
) -> Record:
    terms = request.terms
    lease_until = now + terms.lease
    return Record(
        state=State.RUNNING,
        token=request.token,
        attempt=attempt,
        fingerprint=fingerprint,
        namespace=terms.namespace,
        hold=terms.hold,
        created_at=created_at,
        lease_until=lease_until,
        expires_at=NEVER if terms.hold else lease_until + terms.window,
        window=terms.window,
        name=terms.name,
        kept_key=request.kept_key,
        result=journal,
    )


def _refusal(found: Record, situation: State, now: int) -> Outcome:
    match situation:
        case State.DONE:
            return Done(found.result, found.codec, found.attempt)
        case State.HELD:
            return Held(found.attempt)
        case State.DEAD:
            return Dead(found.attempt, newly=False)
        case _:
            return Busy(found.lease_until - now)
