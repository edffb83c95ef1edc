# Written by tools/twins.py from src/dupeproof/guards/claims_async.py; change that file instead.
"""One claim from the question to the answer: acquire, run, keep alive, finish or fail. All forms of `Once` use it.

Crash points, in order, and what the next process sees: before the claim, a free key. After the claim or during
the work, a running key until the lease is over, then abandoned or held. After the work and before the finish, the
same: this is the gap no store outside the effect's own transaction can close, and `on_abandoned` chooses what it
costs. After the finish, a done key.
"""

import time
from collections.abc import Callable
from types import TracebackType
from typing import Any, Self, TypeVar

from dupeproof.core import outcomes
from dupeproof.core.codecs import Codec, Unstorable
from dupeproof.core.crashes import Crashed, armed, reached
from dupeproof.core.events import Emitters, Kind, logger
from dupeproof.core.policy import Policy
from dupeproof.core.records import NOT_REPLAYABLE, ClaimRequest, Fail, Finish, Renew, Terms
from dupeproof.core.tokens import new_token
from dupeproof.errors import Busy, ClaimLost, ConfigError, Dead, Held, KeyReused, StoreUnavailable
from dupeproof.guards.engine import Engine, handing_back
from dupeproof.guards.heartbeat import RenewalSchedule
from dupeproof.guards.results import DeadCall, replay
from dupeproof.guards.runtime import UNANSWERED, awaited

R = TypeVar("R")


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

    def __init__(self, claims: "Claims", key: str, returns: Any, fingerprint: bytes) -> None:
        self._of = claims
        self._key = key
        self._returns = returns
        self._request = ClaimRequest(claims.digest(key), new_token(), claims.policy.terms, fingerprint)
        self.beat = claims.policy.beat

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
        return self

    def __exit__(
        self, kind: type[BaseException] | None, exc: BaseException | None, traceback: TracebackType | None
    ) -> None:
        if self._open:
            self.leave(exc)

    def run(self, fn: Callable[..., R], args: tuple[Any, ...], kwargs: dict[str, Any]) -> R:
        """The value: of the work if the claim is won, of the one who did it before if not."""
        self.acquire()
        if not self.won:
            replayed: R = self.result
            return replayed
        try:
            value: R = awaited(fn(*args, **kwargs))
        except BaseException as exc:
            if self._open:
                self.leave(exc)
            raise
        self.finish(value)
        return value

    def leave(self, exc: BaseException | None) -> None:
        """Finish, fail or abandon, by how the work ended."""
        if exc is None:
            self.finish(self._result)
        elif isinstance(exc, Exception):
            self.fail(exc)
        else:
            # Cancelled or interrupted: the effect may have happened, so the claim is neither released nor failed.
            self.shut()
            self._publish(Kind.ABANDONED)

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
            if self._of.policy.wait:
                outcome = engine.ask_patiently(request, self._of.policy.wait)
            else:
                try:
                    [outcome] = engine.store.claim([request])
                except BaseException as exc:
                    engine.unanswered([request], exc)
                    raise
        except StoreUnavailable as exc:
            self.go_unguarded(exc)
            return
        if engine.cache is not None and type(outcome) is outcomes.Done:
            engine.learn(request.key, drops)
        self.accept(outcome)
        if armed and self.won:
            self._at("after-claim")

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
        change = self.closing(value)
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
            return
        finally:
            self.shut()
        self.closed(ours, change)
        if armed:
            reached("after-finish")

    def closing(self, value: Any) -> Finish:
        """What to tell the store of the value; from here on the heartbeat's opinion does not count."""
        if not self._open:
            self._check_open()
        self._closing = True
        request, codec, cache = self._request, self._of.codec, self._of.engine.cache
        if cache is not None:
            self._since = time.monotonic(), cache.drops
        data, name = b"", NOT_REPLAYABLE
        try:
            data, name = codec.encode(value, self._returns), codec.name
        except Unstorable as exc:
            logger.warning("%s: done, but not replayable: %s", self._title(), exc)
        except Exception:
            # The effect has happened. Whatever the codec's trouble is, the key must not run again.
            logger.exception("%s: done, but not replayable: the codec failed", self._title())
        return Finish(request.key, request.token, request.terms.window, data, name)

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

        A store that cannot be told now is told when it answers again.
        """
        if not self._open:
            return False
        self.shut()
        self.won = False
        [ours] = self._of.engine.release([handing_back(self._request)])
        self._publish(Kind.RELEASED if ours else Kind.LOST)
        return ours

    def end_lease(self) -> None:
        """Keep the key for nobody, so that one that is to be held is so at once, and can be resolved."""
        if not self._open:
            return
        self.shut()
        change = Renew(self._request.key, self.token, 0, self._of.policy.terms.window)
        self._of.engine.store.renew([change])

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
        terms = self._of.policy.terms
        return Renew(self._request.key, self.token, terms.lease, terms.window)

    def renewal_refused(self) -> None:
        if not self._closing:  # the answer to the finish will tell
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
                self._publish(Kind.HELD)
                raise Held(
                    f"{self._title()} was left unfinished by an owner that vanished; find out whether its effect "
                    "happened, then resolve the key with its result, or reopen it to let it run again"
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
        name = type(error).__qualname__.encode("ascii", "replace").decode()[:200]
        change = Fail(self._request.key, self.token, self._of.policy.terms.window, name, dead)
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
        return f"key {self._request.key.hex()[:12]}… of {self._of.policy.terms.namespace}"


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
    ) -> None:
        self.engine = engine
        self.policy = policy
        self.codec = codec
        self.emitters = Emitters(engine.listeners, policy.terms.namespace, name)
        self.won, self.finished = self.emitters[Kind.WON], self.emitters[Kind.FINISHED]
        self.digest = digest
