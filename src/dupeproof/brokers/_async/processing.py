"""From a chunk of deliveries to verdicts: check and work as one, in a transaction or under a claim."""

import hashlib
from asyncio import CancelledError
from collections.abc import Sequence
from typing import Any, Protocol

from msgspec.structs import replace

from dupeproof.brokers._async.protocols import AsyncSource
from dupeproof.brokers._async.runtime import is_ending, whole
from dupeproof.brokers.base import (
    UNGUARDED,
    Ack,
    Dead,
    Delivery,
    Handler,
    Lost,
    Reject,
    Retry,
    Verdict,
    layered,
)
from dupeproof.brokers.errors import Fenced
from dupeproof.brokers.faults import ELSEWHERE, HOPELESS, not_now
from dupeproof.brokers.ids import identify
from dupeproof.brokers.options import Plan
from dupeproof.brokers.outcomes import Outcome
from dupeproof.core.events import logger
from dupeproof.errors import Busy, ConfigError, StoreUnavailable
from dupeproof.guards import AsyncOnce
from dupeproof.inbox import Arrival, AsyncInbox
from dupeproof.outbox.failures import described
from dupeproof.sql import Translated, join_async
from dupeproof.sql.databases import NOT_YOURS

_ENDED = (
    "A handler of %s has ended the transaction it was given. If that was a COMMIT, the %d messages after it in its batch are "
    "marked and will not be worked on; from now on each message has a transaction for itself"
)
_DIED = "its consumer ended before it was done; {} attempts were made"
_NOBODY = "nobody"


class AsyncWork(Protocol):
    """Does what is to be done for messages, so that their effect happens once."""

    together: bool
    """Whether several messages may share a try."""
    counts: bool
    """Whether attempts are counted here, rather than by the broker."""

    async def check(self) -> None:
        """Look whether the set-up is right, before the first message."""
        ...

    async def begin(self, each: Delivery) -> int:
        """Write down, before it is done, that a message is worked on; how often that was begun and not ended."""
        ...

    async def do(self, chunk: Sequence[Delivery]) -> list[Verdict]:
        """All of them, or an error and none."""
        ...


class AsyncInTransaction:
    """Mark and effect of a chunk in one transaction, on a connection the handler is given."""

    together = counts = True

    def __init__(self, inbox: AsyncInbox, handler: Handler, source: AsyncSource) -> None:
        self._inbox = inbox
        self._handler = handler
        self._source = source

    async def check(self) -> None:
        async with self._inbox.transaction() as connection:
            await self._inbox.window(connection)
            await self._inbox.end_attempts(connection, [_NOBODY])  # whether the table is there

    async def begin(self, each: Delivery) -> int:
        try:
            with Translated():
                async with self._inbox.transaction() as connection:
                    return await self._inbox.begin_attempt(connection, _identity(each))
        except OSError as exc:
            raise StoreUnavailable("the database cannot be reached") from exc

    async def do(self, chunk: Sequence[Delivery]) -> list[Verdict]:
        began = False
        try:
            with Translated():
                async with self._inbox.transaction() as connection:
                    began = True
                    arrivals = await self._arrivals(connection, chunk)
                    verdicts = await self._all(connection, chunk, arrivals)
                    await self._inbox.confirm(connection, _marked(chunk, arrivals))
                    begun = [_identity(each) for each in chunk if each.begun]
                    if begun:
                        await self._inbox.end_attempts(connection, begun)
                    if self._source.features.position:
                        await self._source.record(connection, chunk)
        except OSError as exc:
            if began:
                raise
            raise StoreUnavailable("the database cannot be reached") from exc
        return verdicts

    async def _all(
        self, connection: Any, chunk: Sequence[Delivery], arrivals: Sequence[Arrival]
    ) -> list[Verdict]:
        """A handler that has found a way to commit has committed the marks of those after it as well: never again, then."""
        joined = await join_async(connection)
        was_open = joined.is_open
        verdicts: list[Verdict] = []
        for each, arrival in zip(chunk, arrivals, strict=True):
            verdicts.append(await self._one(connection, each, arrival))
            if was_open and len(verdicts) < len(chunk) and not joined.is_open:
                self.together = False
                logger.error(_ENDED, self._source.name, len(chunk) - len(verdicts))
                raise ConfigError(NOT_YOURS)
        return verdicts

    async def _arrivals(self, connection: Any, chunk: Sequence[Delivery]) -> list[Arrival]:
        """Of what has no id every one is the first; what was put aside is not worked on again."""
        known = [each.message.id for each in chunk if each.message.id is not None and not each.buried]
        answers = iter(await self._inbox.arrivals(connection, known))
        return [
            Arrival.AGAIN if each.buried else Arrival.FIRST if each.message.id is None else next(answers)
            for each in chunk
        ]

    async def _one(self, connection: Any, each: Delivery, arrival: Arrival) -> Verdict:
        if arrival is Arrival.AGAIN:
            return Ack(duplicate=True)
        await self._handler(each.message, connection)
        return Ack(late=arrival is Arrival.LATE)


def _marked(chunk: Sequence[Delivery], arrivals: Sequence[Arrival]) -> list[str]:
    """The ids that are new with this transaction."""
    pairs = zip(chunk, arrivals, strict=True)
    ids = [each.message.id for each, arrival in pairs if arrival is not Arrival.AGAIN]
    return [ident for ident in ids if ident is not None]


def _identity(each: Delivery) -> str:
    """What it is counted by. Of what has no id, all with the same content are one."""
    message = each.message
    if message.id is not None:
        return message.id
    return hashlib.sha256(
        b"\0".join([message.topic.encode(), (message.key or "").encode(), message.body])
    ).hexdigest()


class AsyncUnderClaim:
    """A leased claim around each handler, for effects outside the database. Its store counts attempts."""

    together = counts = False

    def __init__(self, once: AsyncOnce, handler: Handler, limit: int | None) -> None:
        self._once = once
        self._handler = handler
        self._limit = limit

    async def check(self) -> None:
        await self._once.check()

    async def begin(self, _: Delivery) -> int:
        return 0

    async def do(self, chunk: Sequence[Delivery]) -> list[Verdict]:
        return [await self._one(each) for each in chunk]

    async def _one(self, each: Delivery) -> Verdict:
        message = each.message
        if message.id is None:
            await self._handler(message)
            return Ack()
        async with self._once.claim(message.id, fingerprint=message.body) as claim:
            # Only after a crash: one that failed as often, was put aside and is sent again, has another try.
            if claim.took_over and self._limit is not None and claim.attempt > self._limit:
                raise Reject(_DIED.format(claim.attempt - 1))
            if claim.won:
                try:
                    await self._handler(message)
                except Exception as exc:
                    if not_now(exc) or isinstance(exc, ELSEWHERE):
                        await claim.release()  # nobody is to blame, so it was no attempt
                    raise
        return Ack(duplicate=not claim.won)


class AsyncUnguarded:
    """The handler and nothing else, for one that knows by itself what it has done."""

    together = counts = False

    def __init__(self, handler: Handler) -> None:
        self._handler = handler

    async def check(self) -> None:
        """There is nothing to be wrong."""

    async def begin(self, _: Delivery) -> int:
        return 0

    async def do(self, chunk: Sequence[Delivery]) -> list[Verdict]:
        for each in chunk:
            await self._handler(each.message)
        return [Ack() for _ in chunk]


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
        handler = whole(layered(handler, plan.middleware))
        self._work: AsyncWork
        if inbox is not None:
            self._work = AsyncInTransaction(inbox, handler, source)
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

    async def process(self, chunk: Sequence[Delivery]) -> Outcome:
        verdicts: list[Verdict | None] = [self._refused(each) for each in chunk]
        good = [each for each, verdict in zip(chunk, verdicts, strict=True) if verdict is None]
        alone = self._work.counts and any(each.came_before and not each.buried for each in chunk)
        if self._work.together and not alone and len(good) == len(chunk) > 1:
            try:
                return Outcome(await self._work.do(chunk))
            except (Exception, CancelledError) as exc:  # nothing is done, and each is tried alone
                if is_ending(exc):
                    raise
                if not_now(exc):
                    return self._later(exc, [])
        outcome = Outcome([])
        for each, refused in zip(chunk, verdicts, strict=True):
            verdict = refused
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
                verdict = self._judged(each, exc)
            if isinstance(verdict, Retry) and not self._source.features.delays:
                outcome.wait = verdict.seconds
                return outcome
            outcome.verdicts.append(verdict)
            if isinstance(verdict, Dead) and self._source.features.position:
                return outcome  # those after it would record a position past it before it is put aside
        return outcome

    async def _begun(self, each: Delivery) -> Verdict | None:
        """Count an attempt at what may have ended a consumer. The first one, beside others, did not count."""
        limit = self._plan.max_attempts
        if limit is None or each.begun or each.buried or not each.came_before:
            return None
        begun = await self._work.begin(each)
        each.begun = True
        return Dead(_DIED.format(begun - 1)) if begun > max(1, limit - 1) else None

    def _refused(self, each: Delivery) -> Verdict | None:
        """What is not even tried."""
        if each.buried:
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
        if isinstance(exc, HOPELESS):
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
        """The rest stays in its lane; nobody is blamed."""
        logger.warning(
            "The database cannot take messages from %s, trying again: %s", self._source.name, described(exc)
        )
        return Outcome(verdicts, self._plan.backoff)
