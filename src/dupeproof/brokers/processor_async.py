"""From a chunk of deliveries to verdicts: what is not even tried, what failed and comes again, what is dead-lettered."""

from asyncio import CancelledError
from collections.abc import Sequence

from msgspec.structs import replace

from dupeproof.brokers.base import UNGUARDED, Dead, Delivery, Handler, Lost, Retry, Verdict
from dupeproof.brokers.errors import ELSEWHERE, Fenced, is_hopeless, not_now
from dupeproof.brokers.handlers import prepared, wanted_by
from dupeproof.brokers.ids import identify
from dupeproof.brokers.options import Plan
from dupeproof.brokers.outcomes import Failed, Outcome
from dupeproof.brokers.protocols_async import AsyncSource
from dupeproof.brokers.runtime_async import is_ending, whole
from dupeproof.brokers.work_async import (
    DIED,
    AsyncInBatches,
    AsyncInTransaction,
    AsyncUnderClaim,
    AsyncUnguarded,
    AsyncWork,
)
from dupeproof.core.events import logger
from dupeproof.errors import Busy, ConfigError, StoreUnavailable
from dupeproof.guards import AsyncOnce
from dupeproof.inbox import AsyncInbox
from dupeproof.outbox.failures import described
from dupeproof.sql import Translated


class AsyncProcessor:
    """Judges what the work of a chunk ended with. Called by workers, each with a chunk of its own."""

    def __init__(
        self,
        source: AsyncSource,
        handler: Handler,
        plan: Plan,
        inbox: AsyncInbox | None,
        once: AsyncOnce | None,
    ) -> None:
        self._source = source
        self._plan = plan
        self._inbox = inbox
        wanted = wanted_by(handler)
        handler = whole(prepared(handler, wanted, plan.middleware, source.name))
        self._work: AsyncWork
        if plan.order_by is not None and inbox is None:
            raise ConfigError("order_by= needs inbox=, which keeps the newest version of each entity")
        if inbox is not None:
            kind = AsyncInBatches if wanted.batch else AsyncInTransaction
            self._work = kind(inbox, handler, source, plan.order_by)
        elif once is UNGUARDED:
            self._work = AsyncUnguarded(handler)
        else:
            assert once is not None
            self._work = AsyncUnderClaim(once, handler, plan.max_attempts)

    async def check(self) -> None:
        """A wrong set-up is an error now; a database that is down may be up when the first message comes."""
        try:
            with Translated():
                await self._work.check()
        except Exception as exc:
            if not not_now(exc) or (isinstance(exc, StoreUnavailable) and exc.refused):
                raise
            logger.warning("The database cannot be used, messages wait until it can: %s", described(exc))

    async def close(self) -> None:
        """Nothing is kept open any longer; what an inbox has opened, it opens again for others who use it."""
        if self._inbox is not None:
            await self._inbox.close()

    async def process(self, chunk: Sequence[Delivery]) -> Outcome:
        verdicts: list[Verdict | None] = [self._refused(each) for each in chunk]
        good = [each for each, verdict in zip(chunk, verdicts, strict=True) if verdict is None]
        alone = self._work.counts and any(each.came_before and not each.dead_lettered for each in chunk)
        outcome = Outcome([])
        if self._work.together and not alone and len(good) == len(chunk) > 1:
            try:
                results = await self._work.do(chunk)
            except (Exception, CancelledError) as exc:  # nothing is done, and each is tried alone
                if is_ending(exc):
                    raise
                if not_now(exc):
                    return self._later(exc, [])
            else:
                for each, result in zip(chunk, results, strict=False):
                    if not self._goes_on(outcome, each, result):
                        break
                return outcome
        for each, refused in zip(chunk, verdicts, strict=True):
            verdict: Verdict | Failed | None = refused
            try:
                if verdict is None and self._work.counts:
                    verdict = await self._begun(each)
                if verdict is None:
                    [verdict] = await self._work.do([each])
            except (Exception, CancelledError) as exc:  # a handler may raise anything
                if is_ending(exc):
                    raise
                if not_now(exc):
                    return self._later(exc, outcome.verdicts)
                verdict = Failed(exc)
                await self._ended(each)
            if not self._goes_on(outcome, each, verdict):
                break
        return outcome

    def _goes_on(self, outcome: Outcome, each: Delivery, result: Verdict | Failed) -> bool:
        """Write down what became of a message; whether the next one of its chunk may follow."""
        features = self._source.features
        verdict = self._judged(each, result.error) if isinstance(result, Failed) else result
        if isinstance(verdict, Retry) and not features.delays:
            outcome.wait = verdict.seconds
            return False
        outcome.verdicts.append(verdict)
        # Those after it would record a position past it before it is dead-lettered.
        return not (isinstance(verdict, Dead) and features.position)

    async def _begun(self, each: Delivery) -> Verdict | None:
        """Count an attempt at what may have ended a consumer. The first one, beside others, did not count."""
        limit = self._plan.max_attempts
        if limit is None or each.begun or each.dead_lettered or not each.came_before:
            return None
        begun = await self._work.begin(each)
        each.begun = True
        if begun <= max(1, limit - 1):
            return None
        await self._ended(each)  # who mends it and sends it again begins anew
        return Dead(DIED.format(begun - 1))

    async def _ended(self, each: Delivery) -> None:
        """An attempt that ended by an error has ended no consumer."""
        if not each.begun:
            return
        each.begun = False
        try:
            await self._work.end(each)
        except (Exception, CancelledError) as exc:
            if is_ending(exc):
                raise
            logger.warning("That an attempt has ended could not be written down: %s", described(exc))

    def _refused(self, each: Delivery) -> Verdict | None:
        """What is not even tried."""
        if each.dead_lettered:
            return None
        fault = identify(each, self._plan)
        if fault is not None:
            return Dead(described(fault))
        limit = self._plan.max_attempts
        if not self._work.counts and limit is not None and each.message.attempt > limit:
            return Dead(
                f"delivered {each.message.attempt} times, and its consumers ended before they were done"
            )
        return None

    def _judged(self, each: Delivery, exc: BaseException) -> Verdict:
        message, plan = each.message, self._plan
        if isinstance(exc, Fenced):
            return Lost()
        if isinstance(exc, ELSEWHERE):
            wait = exc.retry_after if isinstance(exc, Busy) else 0.0
            return Retry(min(max(wait, plan.backoff), plan.max_backoff), counted=False)
        if is_hopeless(exc):
            return Dead(described(exc))
        if plan.max_attempts is not None and message.attempt >= plan.max_attempts:
            return Dead(f"failed {message.attempt} times, at last: {described(exc)}")
        logger.warning(
            "A message from %s failed at attempt %d and will come again: %s",
            self._source.name,
            message.attempt,
            described(exc),
        )
        if not self._source.features.delays:
            each.message = replace(message, attempt=message.attempt + 1)
        return Retry(plan.delay(message.attempt))

    def _later(self, exc: BaseException, verdicts: list[Verdict]) -> Outcome:
        """The rest stays in its worker queue; nobody is blamed."""
        logger.warning(
            "The database cannot take messages from %s, trying again: %s", self._source.name, described(exc)
        )
        return Outcome(verdicts, self._plan.backoff)
