"""One request with a key, from the claim to what became of it. All frameworks use it.

Crash points, in order: before the claim, nothing. From the claim to the finish, a running key, which is abandoned or
held when the lease is over. The finish comes before the first byte of the response, so whoever has seen one can repeat
the request and will not run it again.
"""

from collections.abc import Awaitable

from dupeproof.core.events import logger
from dupeproof.errors import ClaimLost, NotReplayable, StoreUnavailable
from dupeproof.guards.claims_async import AsyncClaim, error_name
from dupeproof.http.answers import Answer, Headers, Pairs, given_by_hand
from dupeproof.http.codings import in_accepted_coding
from dupeproof.http.handler_context import Handling
from dupeproof.http.headers import NOT_STORED, REPLAYED, storable, value_of
from dupeproof.http.problems import REFUSALS, Code, problem
from dupeproof.http.rules import Rules
from dupeproof.http.statuses import Fate, fate_of

_RAISED = tuple(REFUSALS)


class AnsweredWithError(Exception):
    """The name under which a 5xx is recorded."""


class AsyncExchange:
    __slots__ = ("_claim", "_rules", "concluded", "handling")
    handling: Handling
    """There is one from when the handler is to run."""

    def __init__(self, rules: Rules, claim: AsyncClaim) -> None:
        self._rules = rules
        self._claim = claim
        self.concluded = False
        """What becomes of the key is decided; what happens now is the handler's own affair."""

    async def begin(self, accepts: str | None) -> Answer | None:
        """What to answer in place of the handler; None when it is to run. `accepts` is this try's Accept-Encoding."""
        claim = self._claim
        try:
            await claim.acquire()
        except _RAISED as exc:
            return self._refusal(exc)
        if claim.won:
            self.handling = Handling(claim, claim.attempt, holds_all=self._rules.holds_all)
            return None
        return replay(self._stored(), accepts)

    def _stored(self) -> Answer | None:
        try:
            stored = self._claim.result
        except NotReplayable:
            done = self._claim.stored
            return None if done is None else given_by_hand(done.result, done.codec)
        assert isinstance(stored, Answer)
        return stored

    def fate(self, status: int) -> Fate:
        self.handling.saw_handled(status)  # Starlette answers inside of its `except`
        return self.handling.fate or fate_of(status, self._of_error)

    @property
    def _of_error(self) -> Fate:
        """A guard that holds for some errors cannot rule them out where an error has been answered out of its sight."""
        return self._rules.of_error if self.handling.knows_error else self._rules.of_unseen_error

    def conclude(self, status: int, headers: Pairs, body: bytes | None) -> Awaitable[Headers]:
        """Decide what becomes of the key, by this response; the headers to add to it. A body of None is not kept."""
        self.concluded = True
        fate = self.fate(status)
        if fate is Fate.STORE:
            return self._store(Answer(status, storable(headers), body))
        return self._let_go(fate, AnsweredWithError())

    async def failed(self, error: Exception) -> Answer | None:
        """Decide what becomes of the key, by this exception; what to answer, if that is for us to say."""
        if self.handling.done is not None:
            return await self.repeat(self.handling.done)
        self.handling.saw(error)
        fate = self.handling.fate or self._of_error
        if fate is not Fate.STORE:
            self.concluded = True
            await self._let_go(fate, error)
            return None
        answer = problem(Code.HANDLER_FAILED)
        assert answer.body is not None
        added = await self.conclude(answer.status, answer.headers, answer.body)
        return Answer(answer.status, [*answer.headers, *added], answer.body)

    async def repeat(self, done: Answer) -> Answer:
        """Store again what an earlier run has committed with its own work, and answer with it."""
        self.concluded = True
        if self.handling.reused:
            await self._let_go(Fate.RELEASE, AnsweredWithError())
            return problem(Code.KEY_REUSED, status=self._rules.mismatch_status)
        await self._store(done)
        return replay(done)

    async def abandon(self, interruption: BaseException) -> None:
        """Cancelled, or left without an answer: the effect may have happened, so the key is not given back."""
        self.concluded = True
        if self._claim.is_open:
            await self._claim.leave(interruption)

    async def _store(self, answer: Answer) -> Headers:
        try:
            await self._claim.finish(answer)
        except (StoreUnavailable, ClaimLost) as exc:
            logger.warning("A response goes out that is not stored: %s", exc)
            return [NOT_STORED]
        return [] if answer.body is not None and self._claim.guarded else [NOT_STORED]

    async def _let_go(self, fate: Fate, error: Exception) -> Headers:
        claim = self._claim
        try:
            if fate is Fate.RELEASE:
                await claim.release()
            elif fate is Fate.FAIL and claim.is_open:
                await claim.fail(error)
            elif fate is Fate.HOLD and claim.is_open:
                await claim.hold(error_name(self.handling.error or error))
        except StoreUnavailable as exc:
            logger.warning("A key could not be given back, and stays busy until its lease is over: %s", exc)
        claim.shut()
        return []

    def _refusal(self, exc: Exception) -> Answer:
        code = next(code for kind, code in REFUSALS.items() if isinstance(exc, kind))
        if code is Code.STORE_UNAVAILABLE:
            logger.warning("A request was answered with 503: %s", exc)
        return problem(code, status=self._rules.mismatch_status if code is Code.KEY_REUSED else None)


def replay(stored: Answer | None, accepts: str | None = None) -> Answer:
    """The stored response once more; or, if it was not kept, that it is done."""
    if stored is None:
        return problem(Code.ALREADY_COMPLETED)
    if stored.body is None:
        location = value_of(stored.headers, b"location")
        return problem(Code.ALREADY_COMPLETED, location=location, completed_status=stored.status)
    readable = in_accepted_coding(stored, accepts)
    return Answer(readable.status, [*readable.headers, REPLAYED], readable.body)
