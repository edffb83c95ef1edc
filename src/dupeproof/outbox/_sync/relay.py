# Written by tools/twins.py from src/dupeproof/outbox/_async/relay.py; change that file instead.
"""Relay: publishes what waits in an outbox, in order per key, and forgets it when the broker has it."""

import time
from collections.abc import Iterable, Sequence
from types import TracebackType
from typing import Self

from dupeproof.core.crashes import armed, reached
from dupeproof.core.durations import Duration
from dupeproof.core.events import Event, Kind, Listener, as_listeners, logger, publish
from dupeproof.core.tokens import new_token
from dupeproof.errors import StoreUnavailable
from dupeproof.keys.names import key_digest
from dupeproof.outbox._sync.publishing import (
    Function,
    Publisher,
    Results,
    publisher_of,
)
from dupeproof.outbox._sync.runtime import Rest, open_source
from dupeproof.outbox.failures import HeldBack, PublisherDown, described, publisher_down
from dupeproof.outbox.messages import Message
from dupeproof.outbox.policy import MAX_LANES, AfterDead, make_policy
from dupeproof.outbox.reports import Failure, OutboxStatus, Settlement

_SPACE = "outbox"
_PURGE_BATCH = 5_000
_LONGEST_OUTAGE_PAUSE = 10.0
"""Seconds. Of a message that fails one may wait long for the next try; of a database that was down, not."""
_BETWEEN_PURGES = 60.0
_BETWEEN_REPORTS = 10.0
_SHARE_OF_LEASE = 0.5
"""After this much of the lease no other message is begun: the rest of it is for the last one, and for settling."""
_digest = key_digest(_SPACE)


class Relay:
    """Takes messages from an outbox and hands them to a publisher. Any number of relays may run beside each other.

    A message is removed after the publisher has confirmed it, so a crash anywhere loses nothing: what was under way is
    published again by another relay when the `lease` is over. While a relay publishes it holds no lock and no transaction.

    A message that fails is tried again after `backoff`, doubled each time up to `max_backoff`; later ones with its key
    wait. After `max_attempts` it is put aside as dead, and its key waits for someone to retry or drop it, or goes on
    (`after_dead="go_on"`). `keep` keeps what was sent for a time. A relay looks every `poll`, and PostgreSQL wakes it
    sooner; behind a transaction pooler, which cannot pass that on, give `listen=False`.
    """

    def __init__(
        self,
        source: str,
        *,
        publisher: Publisher | Function,
        batch: int = 500,
        lease: Duration = "30s",
        poll: Duration = "500ms",
        max_attempts: int | None = 10,
        backoff: Duration = "1s",
        max_backoff: Duration = "5m",
        after_dead: AfterDead = "wait",
        keep: Duration | None = None,
        drain: Duration = "10s",
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
        self._rest: Rest | None = None
        self._stop_by: float | None = None
        self._failures = 0
        self._purged_at = self._reported_at = -_BETWEEN_PURGES
        self.sent = 0
        """How many this relay has published."""

    def run(self) -> None:
        """Publish, and wait for more, until `stop`. A database or broker that is down is tried again, soon at first."""
        rest = self._rest = Rest()
        try:
            while not self._is_stopping():
                # Before the look, so that what is committed after it makes the socket readable.
                socket, idle = None, True
                try:
                    socket = self._source.wake_socket() if self._listen else None
                    self._source.woken()
                    idle = self._batch() is None
                    self._chores()
                except StoreUnavailable as exc:
                    self._failures += 1
                    logger.warning("The outbox cannot be read, trying again later: %s", exc)
                    publish(self._listeners, Event(kind=Kind.STORE_DOWN, namespace=_SPACE))
                except PublisherDown as exc:
                    self._failures += 1
                    logger.warning("Nothing can be published, trying again later: %s", exc)
                else:
                    self._failures = 0
                if self._failures:
                    rest.wait(min(self._policy.delay(self._failures) / 1_000, _LONGEST_OUTAGE_PAUSE))
                elif idle:
                    rest.wait(self._policy.poll, socket)
        finally:
            self._stop_by = None
            self._source.close()

    def run_once(self) -> int:
        """Publish what is due, batch after batch, until nothing is left; how many were sent.

        Raises `StoreUnavailable` when the database is down, and what the publisher raised when that is.
        """
        total = 0
        try:
            while (sent := self._batch()) is not None:
                total += sent
        except PublisherDown as exc:
            raise (exc.__cause__ or exc) from None
        return total

    def stop(self) -> None:
        """End `run` after the messages in hand, or those that can be sent within `drain`. Stopping twice is fine.

        A publisher that is at work then is waited for: whether its message went out, only it can tell.
        """
        self._stop_by = time.monotonic() + self._policy.drain
        rest = self._rest
        if rest is not None:
            rest.stop()

    def status(self) -> OutboxStatus:
        return self._source.status()

    def close(self) -> None:
        """Give up connections; `run` does so by itself when it ends."""
        self._source.close()

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, exc: BaseException | None, traceback: TracebackType | None
    ) -> None:
        self.stop()
        self.close()

    def _is_stopping(self) -> bool:
        return self._stop_by is not None

    def _batch(self) -> int | None:
        """Take, publish, settle; how many were sent, or None when nothing is due or it is time to stop."""
        if self._is_stopping():
            return None
        policy, token, began = self._policy, new_token(), time.monotonic()
        messages = self._source.take(token, policy.lease, MAX_LANES, policy.batch)
        if not messages:
            return None
        deadline = began + policy.lease / 1_000 * _SHARE_OF_LEASE

        def time_is_up() -> bool:
            now = time.monotonic()
            return now > deadline or (self._stop_by is not None and now > self._stop_by)

        try:
            results = self._publisher.publish_until(messages, time_is_up)
        except Exception as exc:  # noqa: BLE001 - whatever it raises, the messages are there for another try
            results = [publisher_down(exc) for _ in messages]
        if armed:
            reached("after-publish-before-mark")
        sent = self._settle(token, messages, results)
        down = next((each for each in results if isinstance(each, PublisherDown)), None)
        if down is not None:
            raise down
        return sent

    def _settle(self, token: bytes, messages: Sequence[Message], results: Results) -> int:
        policy = self._policy
        sent = [message for message, result in zip(messages, results, strict=True) if result is None]
        failed = [
            Failure(
                message,
                described(result),
                policy.delay(message.attempt),
                policy.buried(message.attempt),
            )
            for message, result in zip(messages, results, strict=True)
            if result is not None and not isinstance(result, HeldBack | PublisherDown)
        ]
        settlement = Settlement(
            token, [message.place for message in sent], failed, policy.keep, policy.key_waits
        )
        removed = self._source.settle(settlement)
        self.sent += len(sent)
        self._tell(sent, failed, again=len(sent) - removed)
        return len(sent)

    def _tell(self, sent: Sequence[Message], failed: Sequence[Failure], *, again: int) -> None:
        if sent:
            lag = max(message.age for message in sent)
            publish(self._listeners, Event(kind=Kind.SENT, namespace=_SPACE, count=len(sent), seconds=lag))
        if again:
            publish(self._listeners, Event(kind=Kind.SENT_AGAIN, namespace=_SPACE, count=again))
        for failure in failed:
            message = failure.message
            kind = Kind.DEAD if failure.buried else Kind.FAILED
            key = _digest(message.key or message.id).hex()[:12]
            publish(
                self._listeners,
                Event(kind=kind, namespace=_SPACE, name=message.topic, key=key, attempt=message.attempt),
            )
            logger.warning("Message %s failed at attempt %d: %s", message.id, message.attempt, failure.error)

    def _chores(self) -> None:
        """What is done now and then: removing kept messages, telling how much waits."""
        now = time.monotonic()
        if self._policy.keep and now - self._purged_at >= _BETWEEN_PURGES:
            while self._source.purge(_PURGE_BATCH) == _PURGE_BATCH:
                continue
            self._purged_at = now
        if self._listeners and now - self._reported_at >= _BETWEEN_REPORTS:
            status = self._source.status()
            event = Event(kind=Kind.BACKLOG, namespace=_SPACE, count=status.backlog, seconds=status.oldest)
            publish(self._listeners, event)
            self._reported_at = now
