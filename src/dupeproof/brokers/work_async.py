"""Check and work as one: what is done for messages so that their effect happens once. In a transaction, or under a claim.

One message that fails must not undo the work of those that share its transaction. While none fails, a chunk is worked on
with no more statements than it needs. After a failure it is done again with savepoints between its parts, and so are the
chunks after it, until none has failed for a while: then a failure undoes one part, of which the others are done again.
"""

import hashlib
from asyncio import CancelledError
from collections.abc import Awaitable, Callable, Sequence
from typing import Any, Protocol

from dupeproof.brokers.base import Ack, Delivery, Handler, Message, Reject, Verdict
from dupeproof.brokers.errors import ELSEWHERE, not_now
from dupeproof.brokers.options import OrderBy
from dupeproof.brokers.outcomes import Failed
from dupeproof.brokers.protocols_async import AsyncSource
from dupeproof.brokers.runtime_async import is_ending
from dupeproof.core.events import logger
from dupeproof.errors import ConfigError, KeyInvalid, StoreUnavailable
from dupeproof.guards import AsyncOnce
from dupeproof.guards.steps import Keys, current
from dupeproof.inbox import Arrival, AsyncInbox
from dupeproof.sql import Translated, adapt_async
from dupeproof.sql.database_option import NOT_YOURS

_ENDED = (
    "A handler of %s has ended the transaction it was given. If that was a COMMIT, the %d messages after it in its batch are "
    "marked and will not be worked on; from now on each message has a transaction for itself"
)
DIED = "its consumer ended, or was stopped, before it was done; {} attempts were made"
_NOBODY = "nobody"
Results = list[Verdict | Failed]
_PART = 10
"""Messages between two savepoints: fewer cost statements, more are done again after a failure."""
_MOST_SAVEPOINTS = 32
"""In a transaction: PostgreSQL keeps track of 64 at little cost."""
_CAREFUL_CHUNKS = 100
"""After a failure, so many chunks are worked on with savepoints."""


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

    async def end(self, each: Delivery) -> None:
        """What was begun has ended, and its consumer lives: by an error, or since it is not tried any more."""
        ...

    async def do(self, chunk: Sequence[Delivery]) -> Sequence[Verdict | Failed]:
        """Verdicts for all that are done, in one step; of one that failed nothing is left. Or an error, and none is done.

        Where order counts, there are none for what comes after one that failed.
        """
        ...


class FailedInside(Exception):
    """Ends a transaction in which a message failed that cannot be undone alone."""

    def __init__(self, place: int, error: BaseException) -> None:
        super().__init__(place)
        self.place = place
        self.error = error


class AsyncInTransaction:
    """Mark and effect of a chunk in one transaction, on a connection the handler is given."""

    together = counts = True

    def __init__(
        self, inbox: AsyncInbox, handler: Handler, source: AsyncSource, order_by: OrderBy | None
    ) -> None:
        self._inbox = inbox
        self._order_by = order_by
        self._handler = handler
        self._source = source
        self._careful_for = 0
        """How many chunks more are worked on with savepoints."""

    async def check(self) -> None:
        async with self._inbox.transaction() as connection:
            await self._inbox.window(connection)
            await self._inbox.end_attempts(connection, [_NOBODY])  # whether the table is there
            if self._order_by is not None:
                await self._inbox.forget_entity(connection, _NOBODY)  # the same

    async def begin(self, each: Delivery) -> int:
        try:
            with Translated():
                async with self._inbox.transaction() as connection:
                    return await self._inbox.begin_attempt(connection, _identity(each))
        except OSError as exc:
            raise StoreUnavailable("the database cannot be reached") from exc

    async def end(self, each: Delivery) -> None:
        with Translated():
            async with self._inbox.transaction() as connection:
                await self._inbox.end_attempts(connection, [_identity(each)])

    async def do(self, chunk: Sequence[Delivery]) -> Results:
        try:
            results = await self._transact(chunk)
        except FailedInside as failed:
            if not self._careful_for:
                self._careful_for = _CAREFUL_CHUNKS
                return await self.do(chunk)
            return await self._around(chunk, failed)
        self._careful_for = max(0, self._careful_for - 1)
        if any(isinstance(each, Failed) for each in results):
            self._careful_for = _CAREFUL_CHUNKS
        return results

    async def _around(self, chunk: Sequence[Delivery], failed: FailedInside) -> Results:
        """Those before the one that failed in a transaction, and those after it in another."""
        before, after = chunk[: failed.place], chunk[failed.place + 1 :]
        results = await self.do(before) if before else []
        if len(results) < len(before):
            return results
        results.append(Failed(failed.error))
        if after and self._source.features.delays:
            return await self._and(results, self.do, after)
        return results

    @staticmethod
    async def _and(
        results: Results, work: Callable[[Sequence[Delivery]], Awaitable[Results]], rest: Sequence[Delivery]
    ) -> Results:
        """What is committed stays so, whatever becomes of the rest, which waits where nobody is to blame."""
        try:
            results += await work(rest)
        except (Exception, CancelledError) as exc:
            if is_ending(exc):
                raise
            if len(rest) == 1 and not not_now(exc):
                results.append(_failure(exc))
        return results

    async def _transact(self, chunk: Sequence[Delivery]) -> Results:
        began = False
        try:
            with Translated():
                async with self._inbox.transaction() as connection:
                    began = True
                    arrivals = await self._arrivals(connection, chunk)
                    results = await self._all(connection, chunk, arrivals)
                    await self._complete(connection, chunk, arrivals, results)
        except OSError as exc:
            if began:
                raise
            raise StoreUnavailable("the database cannot be reached") from exc
        return results

    async def _complete(
        self,
        connection: Any,
        chunk: Sequence[Delivery],
        arrivals: Sequence[Arrival],
        results: Sequence[Verdict | Failed],
    ) -> None:
        """What is written with the effects: which marks hold, which attempts are over, how far we are."""
        done = [n for n, result in enumerate(results) if not isinstance(result, Failed)]
        # Marked by one statement, they are there or gone together: to look for one is enough. Not for one that was late,
        # if there is another: its row was there before.
        marked = sorted(
            (n for n in done if arrivals[n] is not Arrival.AGAIN), key=lambda n: arrivals[n] is Arrival.LATE
        )
        await self._inbox.confirm(connection, _ids([chunk[n] for n in marked])[:1])
        begun = [_identity(chunk[n]) for n in done if chunk[n].begun]
        if begun:
            await self._inbox.end_attempts(connection, begun)
        if self._source.features.position and done:
            await self._source.record(connection, [chunk[n] for n in done])

    async def _all(self, connection: Any, chunk: Sequence[Delivery], arrivals: Sequence[Arrival]) -> Results:
        """A handler that has found a way to commit has committed the marks of those after it as well: never again, then."""
        adapted = await adapt_async(connection)
        was_open = adapted.is_open
        careful = self._careful_for > 0 and len(chunk) > 1 and adapted.undoes
        part = max(_PART, -(-len(chunk) // _MOST_SAVEPOINTS))
        results: Results = []
        start = 0
        for place, (each, arrival) in enumerate(zip(chunk, arrivals, strict=True)):
            if careful and place % part == 0:
                await adapted.set_savepoint()
                start = place
            failure: Failed | None = None
            try:
                results.append(await self._one(connection, each, arrival))
            except (Exception, CancelledError) as exc:
                failure = _failure(exc)
                if len(chunk) == 1 or is_ending(exc) or not_now(failure.error):
                    raise
            if was_open and place + 1 < len(chunk) and not adapted.is_open:
                self.together = False
                logger.error(_ENDED, self._source.name, len(chunk) - place - 1)
                raise ConfigError(NOT_YOURS)
            if failure is None:
                continue
            left = range(place, place + 1 if self._source.features.delays else len(chunk))
            if not careful or any(arrivals[n] is Arrival.LATE for n in left):
                raise FailedInside(place, failure.error)
            await adapted.undo_to_savepoint()
            for n in range(start, place):
                if not isinstance(results[n], Failed):
                    results[n] = await self._one(connection, chunk[n], arrivals[n])
            await self._inbox.unmark(
                connection, _ids([chunk[n] for n in left if arrivals[n] is Arrival.FIRST])
            )
            results.append(failure)
            if not self._source.features.delays:
                return results
            await adapted.set_savepoint()
            start = place + 1
        return results

    async def _arrivals(self, connection: Any, chunk: Sequence[Delivery]) -> list[Arrival]:
        """Of what has no id every one is the first; what was dead-lettered is not worked on again."""
        known = [each.message.id for each in chunk if each.message.id is not None and not each.dead_lettered]
        answers = iter(await self._inbox.arrivals(connection, known))
        return [
            Arrival.AGAIN
            if each.dead_lettered
            else Arrival.FIRST
            if each.message.id is None
            else next(answers)
            for each in chunk
        ]

    async def _one(self, connection: Any, each: Delivery, arrival: Arrival) -> Verdict:
        verdict = await self._verdict(connection, each, arrival)
        if verdict.duplicate or verdict.stale:
            return verdict
        known = each.message.id
        outer = current.set(None if known is None else Keys("message", self._inbox.group, known))
        try:
            await self._handler(each.message, connection)
        finally:
            current.reset(outer)
        return verdict

    async def _verdict(self, connection: Any, each: Delivery, arrival: Arrival) -> Ack:
        """What it will be if its work ends well, if there is any.

        The version of its entity is taken at the message's own turn, so that a savepoint undoes it with its work, and what
        comes after it in the chunk is judged by it.
        """
        if arrival is Arrival.AGAIN:
            return Ack(duplicate=True)
        order = self._order_of(each.message)
        if order is not None:
            entity, version = order
            try:
                found = await self._inbox.newer(
                    connection, entity=entity, version=version, id=_identity(each)
                )
            except KeyInvalid as exc:
                raise Reject(f"its entity or version, as order_by reads them: {exc}") from exc
            if not found.first:
                return Ack(duplicate=found.duplicate, stale=found.stale)
        return Ack(late=arrival is Arrival.LATE)

    def _order_of(self, message: Message) -> tuple[Any, Any] | None:
        if self._order_by is None:
            return None
        try:
            found: Any = self._order_by(message)
        except Exception as exc:  # the user's code, on a body that may be anybody's
            raise Reject(f"order_by could not read entity and version: {type(exc).__name__}") from exc
        if found is None:
            return None
        if not isinstance(found, tuple) or len(found) != 2:
            raise Reject(
                f"order_by must return (entity, version) or None; it returned a {type(found).__qualname__}"
            )
        entity, version = found
        return entity, version


class AsyncInBatches(AsyncInTransaction):
    """The same for a handler that is given all new messages of a chunk at once. Which one fails, halving finds."""

    async def do(self, chunk: Sequence[Delivery]) -> Results:
        try:
            return await self._transact(chunk)
        except (Exception, CancelledError) as exc:
            if len(chunk) == 1 or not self.together or is_ending(exc) or not_now(exc):
                raise
        middle = (len(chunk) + 1) // 2
        results = await self._part(chunk[:middle])
        if len(results) == middle and (self._source.features.delays or not isinstance(results[-1], Failed)):
            return await self._and(results, self._part, chunk[middle:])
        return results

    async def _part(self, part: Sequence[Delivery]) -> Results:
        try:
            return await self.do(part)
        except (Exception, CancelledError) as exc:
            if len(part) > 1 or is_ending(exc) or not_now(exc):
                raise
            return [_failure(exc)]

    async def _all(self, connection: Any, chunk: Sequence[Delivery], arrivals: Sequence[Arrival]) -> Results:
        verdicts = [
            await self._verdict(connection, each, arrival)
            for each, arrival in zip(chunk, arrivals, strict=True)
        ]
        new = [
            each.message
            for each, verdict in zip(chunk, verdicts, strict=True)
            if not (verdict.duplicate or verdict.stale)
        ]
        if new:
            await self._handler(new, connection)
        return [*verdicts]


def _ids(deliveries: Sequence[Delivery]) -> list[str]:
    return [each.message.id for each in deliveries if each.message.id is not None]


def _failure(exc: BaseException) -> Failed:
    """In our words, where it is a fault of the database and not of the work."""
    try:
        with Translated():
            raise exc  # noqa: TRY301 - only to be translated
    except (Exception, CancelledError) as found:  # noqa: BLE001
        return Failed(found)


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

    async def end(self, _: Delivery) -> None:
        """Nothing was written."""

    async def do(self, chunk: Sequence[Delivery]) -> Sequence[Verdict]:
        return [await self._one(each) for each in chunk]

    async def _one(self, each: Delivery) -> Verdict:
        message = each.message
        if message.id is None:
            await self._handler(message)
            return Ack()
        async with self._once.claim(message.id, fingerprint=message.body) as claim:
            # Only after a crash: one that failed as often, was dead-lettered and is sent again, has another try.
            if claim.took_over and self._limit is not None and claim.attempt > self._limit:
                raise Reject(DIED.format(claim.attempt - 1))
            if claim.won:
                try:
                    await self._handler(message)
                except Exception as exc:
                    if (not_now(exc) or isinstance(exc, ELSEWHERE)) and not claim.holds(exc):
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

    async def end(self, _: Delivery) -> None:
        """Nothing was written."""

    async def do(self, chunk: Sequence[Delivery]) -> Sequence[Verdict]:
        for each in chunk:
            await self._handler(each.message)
        return [Ack() for _ in chunk]
