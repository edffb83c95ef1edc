# Written by tools/twins.py from src/dupeproof/guards/claims_async.py; change that file instead.
"""One claim from the question to the answer: acquire, run, keep alive, finish or fail. All forms of `Once` use it.

Crash points, in order, and what the next process sees: before the claim, a free key. After the claim or during
the work, a running key until the lease is over, then abandoned or held. After the work and before the finish, the
same: this is the gap no store outside the effect's own transaction can close, and `on_abandoned` chooses what it
costs. After the finish, a done key.
"""

import time
from collections.abc import Callable
from datetime import timedelta
from types import TracebackType
from typing import Any, Self, TypeVar

from msgspec.structs import replace

from dupeproof.core import outcomes
from dupeproof.core.codecs import Codec, Unstorable
from dupeproof.core.crashes import Crashed, armed, reached
from dupeproof.core.events import OF_CLAIMS, Emitters, Kind, count_from_zero, logger
from dupeproof.core.policy import Lookup, Policy
from dupeproof.core.records import NOT_REPLAYABLE, ClaimRequest, Fail, Finish, Found, Renew, Terms
from dupeproof.core.states import State
from dupeproof.core.tokens import new_token
from dupeproof.errors import Busy, ClaimLost, ConfigError, Dead, Held, KeyReused, StoreUnavailable
from dupeproof.guards.engine import Engine, handing_back
from dupeproof.guards.functions import KnownReturns
from dupeproof.guards.heartbeat import RenewalSchedule
from dupeproof.guards.journal import Steps
from dupeproof.guards.lookups import Done, NotDone, Unknown, check_settlement
from dupeproof.guards.results import DeadCall, Entry, make_entry, moment_of, replay
from dupeproof.guards.runtime import IS_ASYNC, UNANSWERED, awaited
from dupeproof.guards.steps import Inner, Scope, check_name, current
from dupeproof.keys.ids import content_id

R = TypeVar("R")
_LONGEST_REASON = 200


def storable(reason: str) -> str:
    """A text that every store takes."""
    return reason.encode(errors="replace").decode().replace("\0", "")[:_LONGEST_REASON]


def error_name(error: BaseException) -> str:
    """Its type, never its text, which may hold a secret."""
    return type(error).__qualname__.encode("ascii", "replace").decode()[:_LONGEST_REASON]


class Claim:
    """A claim on one key. `won` says whether the work is yours; if not, `result` is what it gave before."""

    # What most claims never change is kept with the class: setting it on each costs as much as asking the store.
    won = False
    lost = False
    guarded = True
    """False when the store was down, before the work, which is the policy to do anyway, or after."""
    attempt = 0
    took_over = False
    """Whether the owner of before vanished; its work may have happened."""
    _done: outcomes.Done | None = None
    _result: Any = None
    _asked = False
    _open = False
    _closing = False
    _schedule: RenewalSchedule | None = None
    _since = (0.0, 0)
    call: tuple[tuple[Any, ...], dict[str, Any]] = ((), {})
    """The arguments of the guarded call, for a lookup."""
    _steps: Steps | None = None
    _outer: Scope | None = None

    def __init__(self, claims: "Claims", key: str, returns: Any, fingerprint: bytes) -> None:
        self._of = claims
        self._key = key
        self._returns = returns
        policy = claims.policy
        self._request = ClaimRequest(
            claims.digest(key), new_token(), policy.asked, fingerprint, key if policy.keep_keys else ""
        )
        self.beat = policy.beat

    @property
    def done(self) -> bool:
        return self._done is not None

    @property
    def token(self) -> bytes:
        """Names this claim and no other. For comparing, not for ordering."""
        return self._request.token

    @property
    def digest(self) -> bytes:
        """Under which the key is stored."""
        return self._request.key

    @property
    def fingerprint(self) -> bytes:
        """What is compared."""
        return self._request.fingerprint

    @property
    def terms(self) -> Terms:
        """What was promised for it."""
        return self._request.terms

    @property
    def codec(self) -> Codec:
        """How its result is stored."""
        return self._of.codec

    @property
    def stored(self) -> outcomes.Done | None:
        """The result of before as the store has it; None unless done."""
        return self._done

    @property
    def result(self) -> Any:
        """The value: yours to set when won, the stored one when done."""
        if self._done is None:
            return self._result
        return replay(self._done.result, self._done.codec, self._of.codec, self._returns)

    @result.setter
    def result(self, value: Any) -> None:
        if not self.won:
            raise ConfigError("only a claim that was won can be given a result; check claim.won first")
        self._result = value

    def __enter__(self) -> Self:
        self.acquire()
        self._outer = current.get()
        current.set(self)
        return self

    def __exit__(
        self, kind: type[BaseException] | None, exc: BaseException | None, traceback: TracebackType | None
    ) -> None:
        current.set(self._outer)
        if self._open:
            self.leave(exc)

    def run(self, fn: Callable[..., R], args: tuple[Any, ...], kwargs: dict[str, Any]) -> R:
        """The value: of the work if the claim is won, of the one who did it before if not."""
        if self._of.policy.settle is not None:
            self.call = args, kwargs
        self.acquire()
        if not self.won:
            replayed: R = self.result
            return replayed
        outer = current.set(self)
        try:
            value: R = awaited(fn(*args, **kwargs))
        except BaseException as exc:
            if self._open:
                self.leave(exc)
            raise
        finally:
            current.reset(outer)
        self.finish(value)
        return value

    # Steps

    def step(
        self,
        name: str,
        fn: Callable[..., Any],
        args: tuple[Any, ...],
        kwargs: dict[str, Any],
        *,
        is_path: bool = False,
    ) -> Any:
        """`dupeproof.step` inside this call."""
        path = name if is_path else check_name(name)
        if not self.guarded:
            return awaited(fn(*args, **kwargs))
        self._check_open()
        return self._own_steps().run(path, fn, args, kwargs, Inner(self, path))

    def _own_steps(self) -> Steps:
        if self._steps is None:
            of = self._of
            self._steps = Steps(
                self, of.engine.store, of.returns, of.step_codec, of.policy.terms.lease / 1_000
            )
        return self._steps

    def child_key(self, name: str, *, is_path: bool = False) -> str:
        """`dupeproof.child_key` inside this call."""
        return content_id(name if is_path else check_name(name), context=self.digest.hex())

    def lose(self, why: str) -> ClaimLost:
        """The key has gone to somebody else."""
        self.lost = True
        return ClaimLost(f"{self._title()} was taken over, {why}")

    def leave(self, exc: BaseException | None) -> None:
        """Finish, fail or abandon, by how the work ended."""
        if exc is None:
            self.finish(self._result)
        elif self.holds(exc):
            self._hold(error_name(exc))
        elif isinstance(exc, Exception):
            self.fail(exc)
        else:
            # Cancelled or interrupted: the effect may have happened, so the claim is neither released nor failed.
            self.shut()
            self._publish(Kind.ABANDONED)
            if self._steps is not None:
                self._steps.rest()

    def acquire(self) -> None:
        """Ask for the key. Raises unless it was won, or done before."""
        if self._asked:
            raise ConfigError("a claim is good for one use; make another one with claim(key)")
        self._asked = True
        request, engine = self._request, self._of.engine
        drops = 0
        if engine.cache is not None:
            known = engine.cache.find(request.key, request.fingerprint)
            if known is not None:
                self.accept(known)
                return
            drops = engine.cache.drops
        try:
            outcome = self._ask()
        except StoreUnavailable as exc:
            self.go_unguarded(exc)
            return
        if engine.cache is not None and type(outcome) is outcomes.Done:
            engine.learn(request.key, drops)
        self.accept(outcome)
        if armed and self.won:
            self._at("after-claim")

    def _ask(self) -> outcomes.Outcome:
        engine, wait = self._of.engine, self._of.policy.wait
        if wait:
            return engine.ask_patiently(self._request, wait)
        try:
            [outcome] = engine.store.claim([self._request])
        except BaseException as exc:
            engine.unanswered([self._request], exc)
            raise
        return outcome

    @property
    def request(self) -> ClaimRequest:
        """What the store is asked."""
        return self._request

    def go_unguarded(self, down: StoreUnavailable) -> None:
        """The store did not answer: the policy says whether that is an error, or the work is done all the same."""
        self._publish(Kind.STORE_DOWN)
        if not self._of.policy.run_when_down:
            raise down
        logger.warning("%s: running unguarded: %s", self._title(), down)
        self.won, self.guarded = True, False

    def accept(self, outcome: outcomes.Outcome) -> None:
        """Take the store's answer. Raises unless it is won, or done before."""
        if type(outcome) is outcomes.Won:
            try:
                self.won = self._open = True
                self.attempt = outcome.attempt
                self._schedule = self._of.engine.heartbeat.watch(self)
                if outcome.took_over:
                    self.took_over = True
                    self._publish(Kind.TOOK_OVER)
                else:
                    # What happens to every call is emitted in place: see `Emitter`.
                    for count in self._of.won.counts:
                        next(count)
                    if self._of.won.listeners:
                        self._of.won(self._request.key, self.attempt)
            except BaseException:
                # Interrupted between the grant and the work: nobody would ever finish this claim.
                self.shut()
                self._of.engine.unask([self._request])
                raise
            if self._of.policy.settle is None:
                return
            if outcome.took_over:
                try:
                    [found] = self._of.engine.store.get([self._request.key])
                except BaseException:
                    self.shut()
                    self.won = False
                    self._of.engine.unask([self._request])
                    raise
                self._settle(found, state="abandoned")
            self._check_attempts()
        elif type(outcome) is outcomes.Done:
            self._done = outcome
            self.attempt = outcome.attempt
            self._publish(Kind.REPLAYED)
        else:
            self._refuse(outcome)

    def finish(self, value: Any) -> None:
        """Store the value. Raises `ClaimLost` if the key went to someone else meanwhile."""
        if not self.guarded:
            return
        if armed and self._open:
            self._at("after-effect")
        self._finish(value)

    def _finish(self, value: Any, codec: Codec | None = None) -> Finish:
        change = self.closing(value, codec)
        engine = self._of.engine
        began = time.monotonic()
        try:
            try:
                [ours] = engine.store.finish([change])
            except UNANSWERED as exc:
                give_up = began + self._of.policy.terms.lease / 1_000
                [(ours, change)] = engine.finish_again([change], exc, give_up)
        except StoreUnavailable:
            if self.not_recorded():
                raise
            return change
        finally:
            self.shut()
        self.closed(ours, change)
        if armed:
            reached("after-finish")
        return change

    def closing(self, value: Any, codec: Codec | None = None) -> Finish:
        """The change for the store; from here on the heartbeat's opinion does not count."""
        if not self._open:
            self._check_open()
        self._closing = True
        request, codec, cache = self._request, codec or self._of.codec, self._of.engine.cache
        if cache is not None:
            self._since = time.monotonic(), cache.drops
        try:
            data, name = codec.encode(value, self._returns), codec.name
        except Exception:  # noqa: BLE001 - it is logged there
            data, name = self.encoded(value, self._returns, codec)
        return Finish(request.key, request.token, request.terms.window, data, name)

    def encoded(self, value: Any, returns: Any, codec: Codec) -> tuple[bytes, str]:
        try:
            return codec.encode(value, returns), codec.name
        except Unstorable as exc:
            logger.warning("%s: done, but not replayable: %s", self._title(), exc)
        except Exception:
            # The effect has happened. Whatever the codec's trouble is, the key must not run again.
            logger.exception("%s: done, but not replayable: the codec failed", self._title())
        return b"", NOT_REPLAYABLE

    def not_recorded(self) -> bool:
        """The store did not answer, so the result may not be stored. Whether the policy calls that an error."""
        self.guarded = False
        self._publish(Kind.STORE_DOWN)
        return not self._of.policy.run_when_down

    def closed(self, ours: bool, stored: Finish) -> None:
        """Take the store's answer."""
        if not ours:
            if not self.lost:
                self._publish(Kind.LOST)
            raise ClaimLost(
                f"{self._title()} was taken over before this run finished, so its result was not stored; "
                "the handler took longer than its lease without being able to renew it"
            )
        engine = self._of.engine
        if engine.cache is not None and self.attempt == 1:
            # Of a later attempt the fingerprint of the first counts, which only the store knows.
            since, drops = self._since
            done = outcomes.Done(stored.result, stored.codec, self.attempt)
            until = since + stored.window / 1_000
            engine.cache.keep(stored.key, self._request.fingerprint, done, until=until, drops=drops)
        if stored.codec == NOT_REPLAYABLE:
            self._publish(Kind.NOT_REPLAYABLE)
            return
        for count in self._of.finished.counts:
            next(count)
        if self._of.finished.listeners:
            self._of.finished(stored.key, self.attempt)

    def fail(self, error: Exception) -> None:
        """Record that the work failed; the key may be claimed again, unless this was the last attempt."""
        if not self.guarded:
            return
        self._check_open()
        self.shut()
        self._fail(error)

    def release(self) -> bool:
        """Hand the claim back because nothing was done. False when it was no longer yours.

        If the store is away, this is sent when it answers again.
        """
        if not self._open:
            return False
        self.shut()
        self.won = False
        [ours] = self._of.engine.release([handing_back(self._request)])
        self._publish(Kind.RELEASED if ours else Kind.LOST)
        return ours

    def holds(self, error: BaseException) -> bool:
        """Whether this error leaves a doubt, by the policy."""
        return bool(self._of.policy.hold_on) and self._of.policy.holds(error)

    def hold(self, reason: str = "") -> None:
        """The work may have happened: keep the key from everybody until it is resolved, reopened or settled.

        `reason` is kept with it, for people who look at it: at most 200 characters, and nothing secret.
        """
        if not isinstance(reason, str):
            raise ConfigError(f"reason must be a text; got {type(reason).__name__}")
        if not self.guarded:
            return
        self._check_open()
        self._hold(storable(reason))

    def _hold(self, reason: str, since: int = 0) -> None:
        if not self.guarded:
            return
        if self._steps is not None:  # what a step has done is written down before the key is let go
            self._steps.rest()
        self.shut()
        terms = self._request.terms
        change = Fail(self._request.key, self.token, terms.window, reason, hold=True, since=since)
        try:
            ours = self._of.engine.hold(change, terms.lease)
        except StoreUnavailable:
            # The caller needs the error of the work itself. Until the store hears of it, the lease keeps others out.
            self._publish(Kind.STORE_DOWN)
            return
        self._publish(Kind.ON_HOLD if ours else Kind.LOST)

    def settle_with(self, lookup: Lookup, entry: Entry, token: bytes = b"") -> str:
        """Ask about a key that this claim was not made for: done, not_done, unknown, failed, or gone if it is not held.

        With the `token` it was seen under, it is gone also if somebody has had it since.
        """
        self._request = replace(self._request, key=bytes.fromhex(entry.digest))
        found = self._take(token)
        if found is None:
            return "gone"
        since = found.record.since(found.now)
        terms = self._request.terms
        self._request = replace(
            self._request, terms=replace(terms, window=found.record.window or terms.window)
        )
        try:
            # As it is now: since the list was made, it may have been run and held anew.
            shown = make_entry(entry.namespace, self._request.key, found, None)
            answer = check_settlement(awaited(lookup(shown)), lookup)
            if isinstance(answer, Done) and answer.step is not None:
                self._own_steps().settle(answer)
                answer = NotDone()
        except ClaimLost:
            self.shut()
            return "gone"
        except Exception:
            logger.exception("%s stays held: its lookup failed", self._title())
            self._hold(found.record.error, since)
            return "failed"
        except BaseException:
            self._hold(found.record.error, since)
            raise
        if isinstance(answer, Unknown):
            self._hold(found.record.error, since)
            return "unknown"
        if isinstance(answer, NotDone):
            if not self._not_done(found.record.error):
                return "gone"
        else:
            try:
                # The answer to a request says itself how the guard of requests stores it.
                self._finish(answer.value, getattr(answer.value, "stored_with", None))
            except ClaimLost:
                return "gone"
        self._publish(Kind.SETTLED)
        return "done" if isinstance(answer, Done) else "not_done"

    def _take(self, token: bytes = b"") -> Found | None:
        """Own a held key, to ask whether its work has happened. None when it is not held any more."""
        store, terms = self._of.engine.store, self._of.policy.terms
        [found] = store.get([self._request.key])
        if found is None or found.record.situation(found.now) is not State.HELD:
            return None
        if token and found.record.token != token:
            return None
        window = found.record.window or terms.window
        [ours] = store.renew([Renew(self._request.key, found.record.token, terms.lease, window, self.token)])
        if not ours:
            return None
        self.won = self._open = True
        self._schedule = self._of.engine.heartbeat.watch(self)
        return found

    def _settle(self, found: Found | None, state: str) -> None:
        """Ask the lookup. The key is ours meanwhile, so nobody asks or runs beside us; a crash leaves it as it was."""
        lookup = self._of.policy.settle
        assert lookup is not None
        entry = make_entry(self._of.policy.terms.namespace, self._request.key, found, None)
        args, kwargs = self.call
        reason = entry.error or "" if entry is not None else ""
        # Of one that was abandoned, nobody has kept since when: it is taken for the youngest it can be.
        since = 0 if found is None else found.record.since(found.now) if state == "held" else found.now
        try:
            moment = moment_of(since)
            shown = (
                Entry(state=state, namespace="")
                if entry is None or found is None
                else replace(entry, state=state, since=moment, age=timedelta(milliseconds=found.now - since))
            )
            answer = check_settlement(awaited(lookup(shown, *args, **kwargs)), lookup)
            if isinstance(answer, Done) and answer.step is not None:
                self._own_steps().settle(answer)
                answer = NotDone()
        except ClaimLost:  # the lookup took longer than the lease
            self._ask_anew()
            return
        except BaseException as exc:
            self._hold(reason, since)
            self.won = False
            if isinstance(exc, ConfigError) or not isinstance(exc, Exception):
                raise
            raise Held(
                f"{self._title()} is held: its lookup failed with {error_name(exc)}", asked=True
            ) from exc
        if isinstance(answer, Unknown):
            self._hold(reason, since)
            self.won = False
            self._publish(Kind.HELD)
            raise Held(
                f"{self._title()} is held: its lookup does not know whether the work has happened", asked=True
            )
        if isinstance(answer, Done):
            stored = self._finish(answer.value)
            self.won = False
            self._done = outcomes.Done(stored.result, stored.codec, self.attempt)
        elif state == "held":
            # That attempt has failed. The next one is counted, and may be one too many.
            if self._not_done(reason):
                self._publish(Kind.SETTLED)
            self._ask_anew()
            return
        else:
            # The lookup may have taken longer than the lease. Only who owns the key still may run.
            try:
                [ours] = self._of.engine.store.renew([self.renewal()])
            except BaseException:
                self.shut()
                self.won = False
                raise
            if not ours:
                self._ask_anew()
                return
        self._publish(Kind.SETTLED)

    def _not_done(self, reason: str) -> bool:
        """The attempt that left a doubt has failed. False when it was no longer ours to say."""
        self.shut()
        self.won = False
        change = Fail(self._request.key, self.token, self._request.terms.window, reason)
        [ours] = self._of.engine.store.fail([change])
        return ours

    def _check_attempts(self) -> None:
        """Where there is a lookup, it is asked before attempts are counted; so the store does not count them for us."""
        limit = self._of.policy.terms.max_attempts
        if not self.won or not 0 < limit < self.attempt:
            return
        self.shut()
        self.won = False
        terms = self._request.terms
        change = Fail(self._request.key, self.token, terms.window, "", dead=True)
        [ours] = self._of.engine.store.fail([change])
        if ours:
            self._publish(Kind.DEAD)
            self._call_on_dead(None)
        raise Dead(f"{self._title()} used up its {limit} attempts; reopen the key to try again")

    def _ask_anew(self) -> None:
        self.shut()
        self.won = self.lost = False
        self._steps = None
        self._request = replace(self._request, token=new_token())
        self.accept(self._ask())

    def give_up(self) -> ClaimRequest:
        """What is to be handed back, of a claim whose work has not begun."""
        if self._open:
            self.shut()
            self._publish(Kind.RELEASED)
        self.won = False
        return self._request

    # What the heartbeat asks

    @property
    def is_open(self) -> bool:
        return self._open

    def renewal(self) -> Renew:
        terms = self._request.terms
        return Renew(self._request.key, self.token, terms.lease, terms.window)

    def renewal_refused(self) -> None:
        if not self._closing:  # the answer to the finish will show it
            self.lost = True
            self._publish(Kind.LOST)

    def _refuse(self, outcome: outcomes.Outcome) -> None:
        match outcome:
            case outcomes.Mismatch():
                self._publish(Kind.MISMATCH)
                raise KeyReused(
                    f"{self._title()} was used before with other content; use a new key for a new operation"
                )
            case outcomes.Busy(lease_left):
                self._publish(Kind.BUSY)
                raise Busy(
                    f"{self._title()} is being worked on; try again later, or wait with on_busy='wait'",
                    retry_after=max(0, lease_left) / 1_000,
                )
            case outcomes.Held(attempt):
                self.attempt = attempt
                if self._of.policy.settle is not None:
                    found = self._take()
                    if found is None:  # somebody was faster, and asks or has asked
                        self.accept(self._ask())
                    else:
                        self._settle(found, state="held")
                    return
                self._publish(Kind.HELD)
                raise Held(
                    f"{self._title()} is held, because its work may have happened; find out whether it did, "
                    "then resolve the key with its result, or reopen it to let it run again"
                )
            case outcomes.Dead(attempt, newly):
                self.attempt = attempt
                self._publish(Kind.DEAD)
                if newly:
                    self._call_on_dead(None)
                raise Dead(f"{self._title()} used up its {attempt} attempts; reopen the key to try again")

    def _fail(self, error: Exception) -> None:
        limit = self._of.policy.terms.max_attempts
        dead = 0 < limit <= self.attempt
        change = Fail(self._request.key, self.token, self._of.policy.terms.window, error_name(error), dead)
        if self._steps is not None:
            self._steps.rest()
        try:
            ours = self._of.engine.fail(change)
        except StoreUnavailable:
            # The caller needs the error of the work itself.
            self._publish(Kind.STORE_DOWN)
            return
        self._publish((Kind.DEAD if dead else Kind.FAILED) if ours else Kind.LOST)
        if dead and ours:
            self._call_on_dead(error)

    def _call_on_dead(self, error: Exception | None) -> None:
        if self._of.engine.on_dead is None:
            return
        namespace = self._of.policy.terms.namespace
        call = DeadCall(key=self._key, namespace=namespace, attempt=self.attempt, error=error)
        try:
            awaited(self._of.engine.on_dead(call))
        except Exception:
            logger.exception("%s: the dead-letter hook failed", self._title())

    def _check_open(self) -> None:
        if not self._open:
            raise ConfigError(
                "this claim is not open: it was not won, or was finished, failed or released before"
            )

    def _at(self, point: str) -> None:
        try:
            reached(point)
        except Crashed:
            self.shut()  # the dead renew nothing
            raise

    def shut(self) -> None:
        """No longer to be kept alive, or closed a second time."""
        self._open = False
        if self._schedule is not None:
            self._schedule.remove(self)

    def _publish(self, kind: Kind) -> None:
        emit = self._of.emitters[kind]
        for count in emit.counts:
            next(count)
        if emit.listeners:
            emit(self._request.key, self.attempt)

    def _title(self) -> str:
        named = f" ({self._request.terms.name})" if self._request.terms.name else ""
        return f"key {self._request.key.hex()[:12]}… of {self._of.policy.terms.namespace}{named}"


class Claims:
    """What the claims of one function, or of one guard, share.

    `name` is that of the function, as listeners read it.
    """

    def __init__(
        self,
        engine: Engine,
        policy: Policy,
        digest: Callable[[str], bytes],
        codec: Codec,
        name: str = "",
        step_codec: Codec | None = None,
    ) -> None:
        self.engine = engine
        self.policy = policy
        self.codec = codec
        count_from_zero(engine.listeners, OF_CLAIMS, policy.terms.namespace, name)
        self.emitters = Emitters(engine.listeners, policy.terms.namespace, name)
        self.won, self.finished = self.emitters[Kind.WON], self.emitters[Kind.FINISHED]
        self.digest = digest
        self.step_codec = codec if step_codec is None else step_codec
        self.returns = KnownReturns(self.step_codec, is_async=IS_ASYNC)
