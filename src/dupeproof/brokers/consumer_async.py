"""AsyncConsumer: takes messages from a broker, has them worked on, and acknowledges only after the commit.

One task owns the connection to the broker, and does nothing that takes long: it fetches, starts workers, acknowledges what
they are through with, and gives signs of life. So however long a handler takes, the broker hears from us; and whatever a
worker does, it cannot acknowledge a message twice, because it cannot acknowledge one at all.
"""

import time
from collections.abc import Sequence
from typing import Any, Unpack

from dupeproof import defaults
from dupeproof.brokers.base import RELEASE, Ack, Dead, Decided, Delivery, Handler, Retry
from dupeproof.brokers.errors import BrokerUnavailable, NotDeadLettered, NotPublished
from dupeproof.brokers.options import ConsumeOptions, make_plan
from dupeproof.brokers.outcomes import Finished, Health, Postponed, Tally, health_of
from dupeproof.brokers.processor_async import AsyncProcessor
from dupeproof.brokers.protocols_async import AsyncSource
from dupeproof.brokers.runtime_async import Workers, on_signals
from dupeproof.brokers.worker_queues import WorkerQueues
from dupeproof.core.durations import Duration
from dupeproof.core.events import OF_CONSUMERS, Event, Kind, count_from_zero, logger, publish
from dupeproof.errors import ConfigError
from dupeproof.guards import AsyncOnce
from dupeproof.inbox import AsyncInbox
from dupeproof.outbox.failures import TooLate
from dupeproof.outbox.runtime_async import bounded

IDLE = 0.25
"""Seconds to wait for a message when there is nothing else to do."""
TICK = 0.02
"""Seconds between two looks at the broker while handlers are at work."""
BETWEEN_REPORTS = 10.0
"""Seconds between two looks at how many messages wait."""
_LAST_WORDS = 6.0
"""Seconds after `drain` for handlers that are given up, and to hand back what was not begun."""
_MOST_POSTPONED = 100
"""Dead letters that the broker does not take and we hold: with so many, nothing more is fetched."""
TROUBLES = (BrokerUnavailable, NotPublished, ConfigError)
"""While it runs: the connection is lost, a message cannot be dead-lettered, a queue is gone. All may be mended by someone."""


class AsyncConsumer:
    """Made by a broker's `consumer(…)`. `run` returns after `stop`, or after SIGTERM or Ctrl-C, with all work ended."""

    def __init__(
        self,
        source: AsyncSource,
        handler: Handler,
        *,
        group: str,
        inbox: AsyncInbox | None = None,
        once: AsyncOnce | None = None,
        **options: Unpack[ConsumeOptions],
    ) -> None:
        self._plan = make_plan(**options)
        self._source = source
        self._group = group
        self._processor = AsyncProcessor(source, handler, self._plan, inbox, once)
        self._worker_queues = WorkerQueues(self._plan.concurrency, self._plan.batch)
        self._postponed: list[Postponed] = []
        """Dead letters that the broker does not take now."""
        self._workers: Workers | None = None
        self._stop_by: float | None = None
        self._kept_at = 0.0
        self._failures = 0
        self._trouble = "it was not started"
        """Why nothing is consumed now; nothing when all is well."""
        self._turned_at = 0.0
        self._lag: int | None = None
        self._lag_at = 0.0
        self.tally = Tally()
        count_from_zero(self._plan.listeners, OF_CONSUMERS, group, source.name)

    async def run(self) -> None:
        """Consume until `stop()`. A broker that is down is tried again; a queue that is not there is an error."""
        await self._processor.check()
        self._worker_queues = WorkerQueues(
            self._plan.concurrency, self._plan.batch
        )  # nothing is left of an earlier run
        self._postponed = []
        workers = self._workers = Workers(self._plan.concurrency, self._processor.process)
        with on_signals(self.stop):
            try:
                await bounded(lambda: self._consume(workers), self._is_late)
            except TooLate:
                # To stop is still wanted of whoever was left behind.
                logger.warning(
                    "%s does not answer; ending without a goodbye, what was in hand comes again",
                    self._source.name,
                )

    async def _consume(self, workers: Workers) -> None:
        try:
            await self._connect(workers)
            while not self._is_over():
                try:
                    await self._turn(workers)
                    await self._report()
                except TROUBLES as exc:
                    self._trouble = str(exc)
                    logger.warning("Lost %s, connecting again: %s", self._source.name, exc)
                    self.tally.reconnects += 1
                    self._failures += 1
                    await self._source.close()
                    await self._connect(workers)
            await self._hand_back()
        finally:
            self._trouble = "it has ended"
            await workers.close()
            await self._source.close()
            await self._processor.close()
            self._stop_by = None

    def stop(self) -> None:
        """Fetch no more, end what is under way within `drain`, and return from `run`. Safe from signals and other threads."""
        self._stop_by = time.monotonic() + self._plan.drain
        if self._workers is not None:
            self._workers.wake()

    async def _connect(self, workers: Workers) -> None:
        """A queue that is not there is an error at the start; later on it is waited for, as a broker that is down."""
        while not self._is_over():
            until = time.monotonic() + (self._plan.delay(self._failures) if self._failures else 0.0)
            while (left := until - time.monotonic()) > 0 and not self._is_over():
                # What is finished meanwhile was delivered on a connection that is over.
                self._sort(await workers.finished(left))
            try:
                await self._source.open(self._worker_queues.capacity)
            except (BrokerUnavailable, ConfigError) as exc:
                if isinstance(exc, ConfigError) and not self.tally.reconnects:
                    raise
                self._failures += 1
                self._trouble = str(exc)
                await self._source.close()
                logger.warning("Cannot consume from %s, trying again: %s", self._source.name, exc)
            else:
                self._trouble = ""
                return

    def health(self, within: Duration = defaults.HEALTHY_WITHIN) -> Health:
        """Whether it consumes, and hears of the broker, for a probe to ask. From any thread.

        `within` is how long ago it may have looked at the broker for the last time: it looks several times a second, however
        long handlers take, unless an async handler blocks the loop.
        """
        in_hand = len(self._held())
        return health_of(self._trouble, self._turned_at, within, in_hand=in_hand, lag=self._lag)

    async def _report(self) -> None:
        """Now and then, how many messages wait at the broker; for listeners and probes."""
        self._turned_at = now = time.monotonic()
        if now < self._lag_at:
            return
        self._lag_at = now + BETWEEN_REPORTS
        try:
            self._lag = await self._source.lag()
        except ConfigError as exc:  # this user may consume, but not ask
            self._lag, self._lag_at = None, float("inf")
            logger.warning("How many messages wait in %s is not known: %s", self._source.name, exc)
        if self._lag is not None:
            event = Event(kind=Kind.LAG, namespace=self._group, name=self._source.name, count=self._lag)
            publish(self._plan.listeners, event)

    def _is_late(self) -> bool:
        """Whether there is no more time for the broker: a little before `drain` is over, unless handlers are at work."""
        if self._stop_by is None:
            return False
        rest = _LAST_WORDS if self._worker_queues.running else -min(0.5, self._plan.drain / 10)
        return time.monotonic() > self._stop_by + rest

    def _is_over(self) -> bool:
        if self._stop_by is None:
            return False
        return not self._worker_queues.running or time.monotonic() > self._stop_by

    async def _turn(self, workers: Workers) -> None:
        """One look at the broker, one at the workers."""
        now, source, worker_queues = time.monotonic(), self._source, self._worker_queues
        if self._stop_by is not None:
            await self._acknowledge([(each, RELEASE) for each in self._untried()])
        is_full = self._stop_by is not None or len(self._postponed) >= _MOST_POSTPONED
        room = 0 if is_full else worker_queues.room
        due = worker_queues.next_due()
        busy = worker_queues.running or self._stop_by is not None
        rest = IDLE if due is None else min(IDLE, max(0.0, due - now))
        fetched = await source.poll(room, 0.0 if busy else rest)
        self.tally.redelivered += sum(each.message.redelivered for each in fetched)
        worker_queues.add(fetched)
        for number, chunk in worker_queues.start(time.monotonic(), source.holds):
            workers.start(number, chunk)
        if worker_queues.running:
            await self._acknowledge(self._sort(await workers.finished(0.0 if fetched else TICK)))
        elif room == 0:
            await workers.finished(TICK)
        await self._acknowledge(self._due_again())
        await self._keep()

    def _sort(self, finished: Sequence[Finished]) -> list[Decided]:
        """Verdicts for the broker; what has none goes back to its worker queue."""
        decided: list[Decided] = []
        for each in finished:
            if isinstance(each.outcome, BaseException):
                raise each.outcome
            verdicts = each.outcome.verdicts
            decided += zip(each.chunk, verdicts, strict=False)
            left = [*each.chunk[len(verdicts) :]]
            if self._source.features.position and verdicts and isinstance(verdicts[-1], Dead):
                left.insert(0, each.chunk[len(verdicts) - 1])
            # Only what is tried again later holds up its worker queue; the rest after a dead letter goes on at once.
            wait = each.outcome.wait
            self._worker_queues.finish(each.worker_queue, left, time.monotonic() + wait if wait else 0.0)
        return decided

    async def _acknowledge(self, decided: Sequence[Decided]) -> None:
        held = [pair for pair in decided if self._source.holds(pair[0])]
        for part in self._parts(held):
            try:
                await self._source.acknowledge(part)
            except NotDeadLettered as exc:
                if len(part) > 1 or not self._source.features.delays:
                    raise
                self._postpone(part[0], exc)
                continue
            self._failures = 0
            for delivery, verdict in part:
                self._count(delivery, verdict)

    def _parts(self, decided: list[Decided]) -> list[list[Decided]]:
        """Where each message is decided for itself, what cannot be dead-lettered comes last, and holds up nothing else."""
        if not self._source.features.delays:
            return [decided] if decided else []
        dead = [pair for pair in decided if isinstance(pair[1], Dead)]
        others = [pair for pair in decided if not isinstance(pair[1], Dead)]
        return [*([others] if others else []), *([pair] for pair in dead)]

    def _postpone(self, decided: Decided, exc: NotDeadLettered) -> None:
        """Hold it, and try again later; other messages go on. It is given signs of life, so nobody else gets it."""
        each = decided[0]
        each.refusals += 1
        wait = self._plan.delay(each.refusals)
        self._postponed.append(Postponed(decided, time.monotonic() + wait))
        logger.warning(
            "A message from %s cannot be dead-lettered, and is held for another try in %.1f s: %s",
            self._source.name,
            wait,
            exc,
        )

    def _due_again(self) -> list[Decided]:
        """Dead letters whose time has come. What went to others meanwhile is forgotten."""
        now = time.monotonic()
        due = [each.decided for each in self._postponed if each.not_before <= now]
        if due:
            self._postponed = [each for each in self._postponed if each.not_before > now]
        return due

    def _held(self) -> list[Delivery]:
        return [*self._worker_queues.held(), *(each.decided[0] for each in self._postponed)]

    def _untried(self) -> list[Delivery]:
        """What is handed back at the end. A dead letter that could not be written is to be tried by the next consumer."""
        postponed, self._postponed = self._postponed, []
        return [*self._worker_queues.clear(), *(each.decided[0] for each in postponed)]

    async def _hand_back(self) -> None:
        """What waits in a worker queue at the end, so that no attempt is counted. Of a connection that is lost nothing is held."""
        try:
            await self._acknowledge([(each, RELEASE) for each in self._untried()])
        except TROUBLES as exc:
            logger.warning("Could not hand messages back to %s, they come again: %s", self._source.name, exc)

    async def _keep(self) -> None:
        every = self._source.features.keep_alive
        now = time.monotonic()
        if every is None or now - self._kept_at < every:
            return
        self._kept_at = now
        held = [each for each in self._held() if self._source.holds(each)]
        if held:
            await self._source.keep(held)

    def _count(self, delivery: Delivery, verdict: Any) -> None:
        tally, kinds = self.tally, [Kind.FRESH]
        match verdict:
            case Ack(duplicate=True) if delivery.dead_lettered:
                return
            case Ack(duplicate=True):
                tally.duplicates += 1
                kinds = [Kind.SEEN]
            case Ack(stale=True):
                tally.stale += 1
                kinds = [Kind.STALE]
            case Ack(late=late):
                tally.done += 1
                tally.late += late
                kinds += [Kind.LATE] * late
            case Retry(counted=True):
                tally.retried += 1
                kinds = [Kind.FAILED]
            case Dead(reason):
                delivery.dead_lettered = True
                tally.dead += 1
                kinds = [Kind.DEAD]
                logger.warning("A message from %s is dead-lettered: %s", self._source.name, reason)
            case _:
                return
        for kind in kinds if self._plan.listeners else ():
            attempt = delivery.message.attempt
            publish(
                self._plan.listeners,
                Event(kind=kind, namespace=self._group, name=self._source.name, attempt=attempt),
            )
