"""AsyncRelay: publishes what waits in an outbox, in order per key, and forgets it when the broker has it."""

import time
from collections.abc import Iterable, Sequence
from types import TracebackType
from typing import Self

from dupeproof import defaults
from dupeproof.core.crashes import armed, reached
from dupeproof.core.durations import Duration
from dupeproof.core.events import (
    OF_RELAYS,
    OF_TOPICS,
    Event,
    Kind,
    Listener,
    as_listeners,
    count_from_zero,
    logger,
    publish,
)
from dupeproof.core.tokens import new_token
from dupeproof.errors import BrokerFull, BrokerUnavailable, ConfigError, StoreUnavailable
from dupeproof.keys.names import key_digest
from dupeproof.outbox.failures import HeldBack, PublisherDown, UsedUp, described
from dupeproof.outbox.messages import Message, Place, shard_of
from dupeproof.outbox.policy import MAX_LANES, AfterDead, make_policy
from dupeproof.outbox.publishers_async import (
    AsyncPublisher,
    Function,
    Results,
    publisher_of,
)
from dupeproof.outbox.reports import Delivered, Failure, OutboxStatus
from dupeproof.outbox.runtime_async import Rest, open_source
from dupeproof.stores.clients import StoreClient

_SPACE = "outbox"
_PURGE_BATCH = 5_000
_MOST_UNREACHED = 10_000
_MOST_TOPICS = 100
_LONGEST_OUTAGE_PAUSE = 10.0
"""Seconds. Of a message that fails one may wait long for the next try; of a database that was down, not."""
_BREATH = 0.1
"""Seconds, after a batch of which all went to where there is no room."""
_BETWEEN_PURGES = 60.0
_BETWEEN_REPORTS = 10.0
_BETWEEN_TIDYING = 60.0
_SHARE_OF_CHORES = 0.02
"""Of the time, at most, for each of the two that look at everything, where that takes long."""
_SHARE_OF_LEASE = 0.5
"""After this much of the lease no other message is begun: the rest of it is for the last one, and for settling."""
_digest = key_digest(_SPACE)


class AsyncRelay:
    """Takes messages from an outbox and hands them to a publisher. Any number of relays may run beside each other.

    A message is removed after the publisher has confirmed it, so a crash anywhere loses nothing: what was under way is
    published again by another relay when the `lease` is over. While a relay publishes it holds no lock and no transaction.
    One that was slower than its lease may have been overtaken, and then both have published; what it confirms is removed
    all the same, for it is with the broker. Each message goes by itself: two that were added with the same id are both
    published, and consumers recognise them as duplicates.

    At most `batch` messages are taken, and handed to a publisher of batches, at a time.

    A message that fails is tried again after `backoff`, doubled each time up to `max_backoff`; later ones with its key
    wait. After `max_attempts` it is dead-lettered, and its key waits for someone to retry or drop it, or goes on
    (`after_dead="go_on"`). A relay that dies has used up an attempt of the message it was at; where it had several, each is
    tried alone first, and only what was alone is counted.

    `BrokerUnavailable`, or a connection that is refused, lost or times out, is an outage and no attempt: the relay waits,
    at most ten seconds, emits `publisher_down`, and tries others first. An error of the connection counts
    against a message to which it happens again although others were sent since; `BrokerUnavailable` never does. Where only
    the queue of a message has no room (`BrokerFull`), that message waits, at first for `backoff` and at most for as long as
    there has been no room, and others are sent.

    `keep` keeps what was sent for a time. A relay looks every `poll`, and PostgreSQL wakes it sooner; behind a
    transaction pooler, which cannot pass that on, give `listen=False`.
    """

    def __init__(
        self,
        source: str | StoreClient,
        *,
        publisher: AsyncPublisher | Function,
        batch: int = defaults.RELAY_BATCH,
        lease: Duration = defaults.RELAY_LEASE,
        poll: Duration = defaults.RELAY_POLL,
        max_attempts: int | None = defaults.MAX_ATTEMPTS,
        backoff: Duration = defaults.BACKOFF,
        max_backoff: Duration = defaults.RELAY_MAX_BACKOFF,
        after_dead: AfterDead = "wait",
        keep: Duration | None = None,
        drain: Duration = defaults.RELAY_DRAIN,
        listen: bool = True,
        events: Iterable[Listener] = (),
    ) -> None:
        self._policy = make_policy(
            batch=batch,
            lease=lease,
            poll=poll,
            max_attempts=max_attempts,
            backoff=backoff,
            max_backoff=max_backoff,
            after_dead=after_dead,
            keep=keep,
            drain=drain,
        )
        self._publisher = publisher_of(publisher)
        self._source = open_source(source)
        self._listen = listen
        self._listeners = as_listeners(events)
        self._topics: set[str] = set()
        """That were met, as long as they are few: those that are counted by themselves."""
        count_from_zero(self._listeners, OF_RELAYS, _SPACE)
        self._rest: Rest | None = None
        self._stop_by: float | None = None
        self._failures = 0
        self._unreached: dict[Place, int] = {}
        """Messages for which nobody could be reached, and how many had been sent by then."""
        self._full_since: dict[str, float] = {}
        """Topics that have no room."""
        self._full: BaseException | None = None
        """Why the whole of the last batch had to wait, if there was no room for it."""
        self._full_told_at = 0.0
        self._purge_at = self._report_at = self._tidy_at = 0.0
        self.sent = 0
        """How many this relay has published."""

    async def run(self) -> None:
        """Publish, and wait for more, until `stop`. A database or broker that is down is tried again, soon at first.

        Raises `ConfigError` when the publisher does before anything was sent: a wrong password, a certificate that cannot be
        verified. Later on that is tried again too.
        """
        rest = self._rest = Rest()
        try:
            while not self._is_stopping():
                # Before the look, so that what is committed after it makes the socket readable.
                socket, idle = None, True
                try:
                    socket = await self._source.wake_socket() if self._listen else None
                    self._source.woken()
                    idle = await self._batch() is None
                    await self._chores()
                except StoreUnavailable as exc:
                    self._failures += 1
                    logger.warning("The outbox cannot be read, trying again later: %s", exc)
                    publish(self._listeners, Event(kind=Kind.STORE_DOWN, namespace=_SPACE))
                except PublisherDown as exc:
                    if isinstance(exc.__cause__, ConfigError) and not self.sent:
                        raise exc.__cause__ from None
                    self._failures += 1
                    logger.warning("Nothing can be published, trying again later: %s", exc)
                    publish(self._listeners, Event(kind=Kind.PUBLISHER_DOWN, namespace=_SPACE))
                else:
                    self._failures = 0
                if self._failures:
                    await rest.wait(self._pause(self._failures))
                elif idle:
                    await rest.wait(self._policy.poll, socket)
                elif self._full is not None:
                    await rest.wait(_BREATH)
        finally:
            self._stop_by = None
            await self._source.close()

    async def run_once(self) -> int:
        """Publish what is due, batch after batch, until nothing is left; how many were sent.

        Raises `StoreUnavailable` when the database is down, and what the publisher raised when that is, or when there was no room
        for anything.
        """
        total = 0
        self._stop_by = None  # an earlier stop was for what ran then
        await self._tidy()
        try:
            while (sent := await self._batch()) is not None:
                total += sent
                if self._full is not None:
                    break
        except PublisherDown as exc:
            raise (exc.__cause__ or exc) from None
        if self._full is not None and not total:
            raise self._full
        return total

    def stop(self) -> None:
        """End `run` after the messages in hand, or those that can be sent within `drain`. Stopping twice is fine.

        A publisher of ours whose broker does not answer is left when that time is over: what it had in hand may be sent
        again. Any other that is at work then is waited for: only it knows whether its message went out.
        """
        self._stop_by = time.monotonic() + self._policy.drain
        rest = self._rest
        if rest is not None:
            rest.stop()

    async def status(self) -> OutboxStatus:
        return await self._source.status()

    async def close(self) -> None:
        """Give up connections; `run` does so by itself when it ends."""
        await self._source.close()

    async def __aenter__(self) -> Self:
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, exc: BaseException | None, traceback: TracebackType | None
    ) -> None:
        self.stop()
        await self.close()

    def _is_stopping(self) -> bool:
        return self._stop_by is not None

    def _is_late(self) -> bool:
        """A little before the time to stop is over: what became of the batch is yet to be written down."""
        drain = self._policy.drain
        return self._stop_by is not None and time.monotonic() > self._stop_by - min(0.5, drain / 10)

    def _pause(self, failures: int) -> float:
        """Seconds, after so many tries in a row at which nothing could be read or published."""
        return min(self._policy.delay(failures) / 1_000, _LONGEST_OUTAGE_PAUSE)

    async def _batch(self) -> int | None:
        """Take, publish, record; how many were sent, or None when nothing is due or it is time to stop."""
        self._full = None
        if self._is_stopping():
            return None
        policy, token, began = self._policy, new_token(), time.monotonic()
        messages = await self._source.take(token, policy.lease, MAX_LANES, policy.batch)
        if not messages:
            return None
        self._count_topics(messages)
        deadline = began + policy.lease / 1_000 * _SHARE_OF_LEASE

        def time_is_up() -> bool:
            now = time.monotonic()
            return now > deadline or (self._stop_by is not None and now > self._stop_by)

        refused = self._refused(messages)
        tried = [message for message in messages if message.place not in refused] if refused else messages
        results: Results = []
        try:
            if tried:
                results = await self._publisher.publish_until(tried, time_is_up, self._is_late)
        except Exception as exc:  # noqa: BLE001 - whatever it raises, the messages are there for another try
            results = [PublisherDown(exc, tried=isinstance(exc, BrokerFull)) for _ in tried]
        if armed:
            reached("after-publish-before-mark")
        if refused:
            answers = iter(results)
            results = [refused.get(message.place) or next(answers) for message in messages]
        self._see_full(messages, results)
        sent = await self._record(token, messages, results)
        causes = [each for each in results if isinstance(each, PublisherDown)]
        down = next((each for each in causes if not isinstance(each.__cause__, BrokerFull)), None)
        if down is not None and not sent:
            raise down
        if causes and down is None:
            self._full = None if sent else causes[0].__cause__
            self._tell_full(causes[0])
        return sent

    def _count_topics(self, messages: Sequence[Message]) -> None:
        """From 0, before the first of a topic fails; no more of them than metrics have names for."""
        for topic in {message.topic for message in messages} - self._topics if self._listeners else ():
            if len(self._topics) < _MOST_TOPICS:
                self._topics.add(topic)
                count_from_zero(self._listeners, OF_TOPICS, _SPACE, topic)

    def _see_full(self, messages: Sequence[Message], results: Results) -> None:
        """Which topics have no room, and since when. What was sent shows that there is some again."""
        now = time.monotonic()
        for message, result in zip(messages, results, strict=True):
            if result is None:
                self._full_since.pop(message.topic, None)
            elif isinstance(result, PublisherDown) and isinstance(result.__cause__, BrokerFull):
                if len(self._full_since) > _MOST_UNREACHED:
                    self._full_since.clear()
                self._full_since.setdefault(message.topic, now)

    def _tell_full(self, why: PublisherDown) -> None:
        """Not for each batch: there may be many, while other messages are sent."""
        now = time.monotonic()
        if now < self._full_told_at:
            return
        self._full_told_at = now + _BETWEEN_REPORTS
        logger.warning("Some messages wait, because there is no room for them at the broker: %s", why)
        publish(self._listeners, Event(kind=Kind.PUBLISHER_DOWN, namespace=_SPACE))

    def _refused(self, messages: Sequence[Message]) -> dict[Place, BaseException]:
        """Those whose relays have died too often, and what comes after them with their keys."""
        refused: dict[Place, BaseException] = {}
        if not any(self._policy.used_up(message.attempt) for message in messages):
            return refused
        keys: set[str | None] = set()
        for message in messages:
            if message.key is not None and message.key in keys:
                refused[message.place] = HeldBack()
            elif self._policy.used_up(message.attempt):
                refused[message.place] = UsedUp(
                    f"all {message.attempt - 1} attempts are used up: at the last one its relay ended, or max_attempts was more"
                )
                keys.add(message.key)
        return refused

    async def _record(self, token: bytes, messages: Sequence[Message], results: Results) -> int:
        policy = self._policy
        sent = [message for message, result in zip(messages, results, strict=True) if result is None]
        self.sent += len(sent)
        failed = [
            failure
            for message, result in zip(messages, results, strict=True)
            if result is not None and (failure := self._failure(message, result)) is not None
        ]
        delivered = Delivered(
            token,
            [message.place for message in sent],
            failed,
            policy.keep,
            policy.key_waits,
            sorted(set(map(shard_of, {message.place[0] for message in messages}))),
        )
        removed = await self._source.record(delivered)
        self._emit(sent, failed, again=len(sent) - removed)
        return len(sent)

    def _failure(self, message: Message, result: BaseException) -> Failure | None:
        policy = self._policy
        match result:
            case HeldBack() | PublisherDown(tried=False):
                return None
            case PublisherDown() if isinstance(result.__cause__, BrokerFull):
                waited = round((time.monotonic() - self._full_since.get(message.topic, 0.0)) * 1_000)
                delay = min(policy.max_backoff, max(policy.delay(1), waited))
                return Failure(message, str(result), delay, dead=False, counted=False)
            case PublisherDown() if isinstance(
                result.__cause__, BrokerUnavailable
            ) or not self._others_were_sent(message):
                delay = round(self._pause(self._failures + 1) * 1_000)
                return Failure(message, str(result), delay, dead=False, counted=False)
            case PublisherDown():
                result = result.__cause__ or result
            case UsedUp():
                return Failure(message, str(result), 0, dead=True, counted=False)
        return Failure(
            message, described(result), policy.delay(message.attempt), policy.dead(message.attempt)
        )

    def _others_were_sent(self, message: Message) -> bool:
        """Since nobody could be reached for this one; what is not known of it begins now."""
        if len(self._unreached) > _MOST_UNREACHED:
            self._unreached.clear()
        before = self._unreached.get(message.place)
        self._unreached[message.place] = self.sent
        return before is not None and self.sent > before

    def _emit(self, sent: Sequence[Message], failed: Sequence[Failure], *, again: int) -> None:
        if sent:
            lag = max(message.age for message in sent)
            publish(self._listeners, Event(kind=Kind.SENT, namespace=_SPACE, count=len(sent), seconds=lag))
        if again:
            publish(self._listeners, Event(kind=Kind.SENT_AGAIN, namespace=_SPACE, count=again))
        for failure in failed:
            message = failure.message
            if not failure.counted and not failure.dead:
                continue
            kind = Kind.DEAD if failure.dead else Kind.FAILED
            key = _digest(message.key or message.id).hex()[:12]
            publish(
                self._listeners,
                Event(kind=kind, namespace=_SPACE, name=message.topic, key=key, attempt=failure.attempts),
            )
            logger.warning("Message %s failed at attempt %d: %s", message.id, failure.attempts, failure.error)

    async def _chores(self) -> None:
        """What is done now and then: remove kept messages, report the backlog, scan everything once."""
        now = time.monotonic()
        if self._policy.keep and now >= self._purge_at:
            while await self._source.purge(_PURGE_BATCH) == _PURGE_BATCH:
                continue
            self._purge_at = now + _BETWEEN_PURGES
        if self._listeners and now >= self._report_at:
            status = await self._source.status()
            event = Event(kind=Kind.BACKLOG, namespace=_SPACE, count=status.backlog, seconds=status.oldest)
            publish(self._listeners, event)
            self._report_at = _next(now, _BETWEEN_REPORTS)
        await self._tidy()

    async def _tidy(self) -> None:
        now = time.monotonic()
        if now >= self._tidy_at:
            await self._source.tidy()
            self._tidy_at = _next(now, _BETWEEN_TIDYING)


def _next(began: float, every: float) -> float:
    """When to do it again; what takes long is done less often."""
    now = time.monotonic()
    return now + max(every, (now - began) / _SHARE_OF_CHORES)
