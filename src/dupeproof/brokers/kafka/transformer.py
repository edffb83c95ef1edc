"""From topic to topic, exactly once: what is read, what is written for it, and how far one is, in one Kafka transaction.

Handlers run first, in workers, and their output is kept. Only then a transaction is opened, for as long as it takes to write it,
so no handler is too slow for one. One thread owns the clients: it polls while handlers are at work, so none is too slow for the
group either, and writes between two polls, so no rebalance falls into a transaction. What the group took away meanwhile is left out.

What the group thinks of us is asked for each commit: one that was thought dead meanwhile is refused, and its transaction
aborted. Crash points: before the commit, nothing is seen by those who read committed messages, and the batch is read
again, by whoever has the partition then; after it, all is. Where we cannot know which of the two it is, we start anew from what
Kafka has as our position.
"""

import time
from collections.abc import Callable, Iterable, Sequence
from typing import Any

from msgspec import Struct, field
from msgspec.structs import replace

from dupeproof import defaults
from dupeproof.brokers.base import Delivery, Message, dead_name
from dupeproof.brokers.errors import BrokerUnavailable, Fenced, is_hopeless
from dupeproof.brokers.kafka import wire
from dupeproof.brokers.kafka.admin import has_member
from dupeproof.brokers.kafka.driver import LOGGER, TIMEOUT, Config, kafka, meaning
from dupeproof.brokers.kafka.partition_queues import Partitions
from dupeproof.brokers.kafka.reader import Reader
from dupeproof.brokers.kafka.topics import Topics
from dupeproof.brokers.kafka.transaction import FENCES, Aborted, Done, Refused, Transaction
from dupeproof.brokers.options import Plan, Queues, check_arguments, check_place, make_plan
from dupeproof.brokers.outcomes import Health, Outcome, health_of
from dupeproof.brokers.runtime import Workers, on_signals
from dupeproof.core.callables import is_async
from dupeproof.core.durations import Duration, milliseconds
from dupeproof.core.events import Event, Kind, Listener, publish
from dupeproof.core.tokens import new_token
from dupeproof.errors import ConfigError
from dupeproof.keys.names import check_namespace
from dupeproof.outbox import messages
from dupeproof.outbox.failures import TooLate, described
from dupeproof.outbox.runtime import bounded

Transform = Callable[[Message], Iterable[messages.Message | wire.Output]]
"""What is to be written for a message: new messages, or the one that came, by `forward`."""
_IDLE, _TICK = 0.25, 0.02
BETWEEN_REPORTS = 10.0
"""Seconds between two looks at how many messages wait."""
_GOODBYE = 1.0
"""Seconds that the library has to end, beyond the time to stop."""
_LONGEST = 1.0
"""Seconds after which what handlers have done so far is written, however much of their batch is left."""


class Transformed(Struct):
    """What was done so far."""

    read: int = 0
    written: int = 0
    dead: int = 0
    aborted: int = 0
    """Transactions that were given up. Their output was written by another one."""
    reconnects: int = 0


class Transformer:
    """Calls `handler(message)` for each message of a topic and writes what it returns, exactly once each.

    `topic` may also be a list of topics, or a pattern that begins with `^`. A message that fails holds up its partition, and no
    other, until it succeeds or is dead-lettered, to the topic `<topic>.dead`.

    `handler` must do nothing else that matters: what it does outside Kafka is not undone when a transaction is aborted, and it may
    be called again for the same message. It may take any time. `concurrency` handlers run at once, each for other partitions.

    With a `transactional_id` of its own, a transformer that is started anew ends what the one before left open, and fences it: `run`
    of that one raises `Fenced`. Without one, what was left open ends by itself after `transaction_timeout`; until then those
    who read committed messages wait, and so does whoever goes on. A transformer that was away for longer than that, as were its
    brokers, finds its transaction aborted, and goes on where nobody has taken over.
    """

    def __init__(
        self,
        servers: str,
        topic: Queues,
        handler: Transform,
        *,
        group: str,
        transactional_id: str | None = None,
        concurrency: int = defaults.CONCURRENCY,
        batch: int = defaults.CONSUMER_BATCH,
        create: bool = False,
        max_attempts: int | None = defaults.MAX_ATTEMPTS,
        backoff: Duration = defaults.BACKOFF,
        max_backoff: Duration = defaults.CONSUMER_MAX_BACKOFF,
        transaction_timeout: Duration = defaults.TRANSACTION_TIMEOUT,
        drain: Duration = defaults.CONSUMER_DRAIN,
        events: Iterable[Listener] = (),
        config: Config | None = None,
    ) -> None:
        self._timeout = milliseconds(transaction_timeout, name="transaction_timeout") / 1_000
        self._plan: Plan = make_plan(
            concurrency=concurrency,
            batch=batch,
            max_attempts=max_attempts,
            backoff=backoff,
            max_backoff=max_backoff,
            drain=drain,
            events=events,
        )
        check_arguments(handler, "message")
        if is_async(handler):
            raise ConfigError("the handler of a Transformer is called from threads; make it a plain function")
        self._handler = handler
        self._topics = Topics(check_place(servers, topic))
        self._group = check_namespace(group)
        self._named = transactional_id is not None
        self._id = transactional_id or f"{self._group}.{new_token().hex()}"
        self._client_id = f"transformer-{self._id}"
        self._reader = Reader(
            servers,
            self._topics,
            self._group,
            create=create,
            config=config or {},
            positions=None,
            ours={"client.id": self._client_id},
        )
        self._transaction = Transaction(
            {"client.id": self._client_id, **self._reader.connection}, self._id, self._timeout
        )
        self._worker_queues = Partitions(self._plan.concurrency, self._plan.batch)
        self._workers: Workers | None = None
        self._share = self._plan.batch
        """How many messages share a transaction at most: fewer after one that was aborted."""
        self._stop_by: float | None = None
        self._failures = 0
        self._was_open = False
        self._trouble = "it was not started"
        """Why nothing is transformed now; nothing when all is well."""
        self._turned_at = 0.0
        self._lag: int | None = None
        self._lag_at = 0.0
        self.tally = Transformed()

    def run(self) -> None:
        """Until `stop`, SIGTERM or Ctrl-C. Raises `Fenced` when another took over this `transactional_id`."""
        self._worker_queues = Partitions(
            self._plan.concurrency, self._plan.batch
        )  # nothing is left of an earlier run
        self._failures, self._was_open = 0, False
        workers = self._workers = Workers(self._plan.concurrency, self._handle)
        with on_signals(self.stop):
            try:
                bounded(lambda: self._transform(workers), self._is_late)
            except TooLate:
                # Whoever was left behind still wants to stop; what it commits, it commits whole.
                LOGGER.warning("Kafka does not answer; ending without a goodbye to %s", self._topics)

    def _transform(self, workers: Workers) -> None:
        try:
            while not self._is_over():
                try:
                    self._serve(workers)
                except (BrokerUnavailable, ConfigError) as exc:
                    if isinstance(exc, ConfigError) and not self._was_open:
                        raise  # later on it is waited for, as brokers that are down
                    self._failures += 1
                    self._trouble = str(exc)
                    self.tally.reconnects += 1
                    LOGGER.warning("Cannot transform %s, trying again: %s", self._topics, exc)
                    self._rest(workers, self._plan.delay(self._failures))
        finally:
            self._trouble = "it has ended"
            workers.close()
            self._stop_by = None

    def health(self, within: Duration = defaults.HEALTHY_WITHIN) -> Health:
        """Whether it transforms, and hears of Kafka, for a probe to ask. From any thread.

        `within` is how long ago it may have looked at Kafka for the last time: it looks several times a second, however long
        handlers take. `lag` is of the partitions that are its own.
        """
        in_hand = len(self._worker_queues.held())
        return health_of(self._trouble, self._turned_at, within, in_hand=in_hand, lag=self._lag)

    def _report(self) -> None:
        """Now and then, how many messages wait; for listeners and probes."""
        self._turned_at = now = time.monotonic()
        if now < self._lag_at:
            return
        self._lag_at = now + BETWEEN_REPORTS
        self._lag = self._reader.lag()
        if self._lag is not None:
            event = Event(kind=Kind.LAG, namespace=self._group, name=str(self._topics), count=self._lag)
            publish(self._plan.listeners, event)

    def stop(self) -> None:
        """End what is under way within `drain`, and return from `run`. Safe from signals and other threads."""
        self._stop_by = time.monotonic() + self._plan.drain
        if self._workers is not None:
            self._workers.wake()

    def _is_over(self) -> bool:
        if self._stop_by is None:
            return False
        return not self._worker_queues.running or time.monotonic() > self._stop_by

    def _is_late(self) -> bool:
        return self._stop_by is not None and time.monotonic() > self._stop_by + _GOODBYE

    def _left(self) -> float:
        """Seconds that a question to Kafka may take."""
        if self._stop_by is None:
            return TIMEOUT
        return max(0.1, min(TIMEOUT, self._stop_by - time.monotonic()))

    def _rest(self, workers: Workers, seconds: float) -> None:
        """What is finished meanwhile was read by a client that is gone."""
        until = time.monotonic() + seconds
        while (left := until - time.monotonic()) > 0 and not self._is_over():
            for each in workers.finished(left):
                self._worker_queues.finish(each.worker_queue, [], 0.0)

    def _serve(self, workers: Workers) -> None:
        """With one pair of clients, until it is time to stop or they are of no use any more."""
        try:
            self._transaction.open(self._left)
            self._reader.open(self._worker_queues.capacity)
            self._was_open = True
            self._trouble = ""
            while not self._is_over():
                self._turn(workers)
                self._report()
        except kafka.KafkaException as exc:
            raise self._meaning(exc.args[0]) from exc
        finally:
            self._transaction.close()
            self._reader.close()

    def _turn(self, workers: Workers) -> None:
        worker_queues, now = self._worker_queues, time.monotonic()
        room = 0 if self._stop_by is not None else worker_queues.room
        due = worker_queues.next_due()
        rest = _IDLE if due is None else min(_IDLE, max(0.0, due - now))
        fetched = self._reader.poll(room, 0.0 if worker_queues.running or self._stop_by is not None else rest)
        worker_queues.add(fetched)
        if self._stop_by is None:
            for number, chunk in worker_queues.start(time.monotonic(), self._reader.holds):
                workers.start(number, chunk)
        if worker_queues.running:
            for each in workers.finished(0.0 if fetched else _TICK):
                if isinstance(each.outcome, BaseException):
                    raise each.outcome
                assert isinstance(each.outcome, _Handled)
                self._finish(each.worker_queue, each.chunk, each.outcome)

    # In workers

    def _handle(self, chunk: Sequence[Delivery]) -> Outcome:
        """Call the handler for one after the other; up to one that fails, or until it has taken long enough."""
        handled = _Handled([])
        give_up = time.monotonic() + _LONGEST
        for each in chunk:
            if self._stop_by is not None or (handled.outputs and time.monotonic() > give_up):
                break
            try:
                handled.outputs.append([_output(out) for out in self._handler(each.message) or ()])
            except Exception as exc:  # noqa: BLE001 - a handler may raise anything
                failed = self._failed(each, exc)
                if isinstance(failed, float):
                    handled.wait = failed
                    break
                handled.outputs.append(failed)
        return handled

    def _failed(self, each: Delivery, exc: Exception) -> float | list[wire.Output]:
        """Seconds to wait for the next try; or, after the last one, its dead letter."""
        attempt, limit = each.message.attempt, self._plan.max_attempts
        if is_hopeless(exc) or (limit is not None and attempt >= limit):
            return [wire.dead_letter(each, described(exc))]
        LOGGER.warning(
            "A message of %s failed at attempt %d and will be tried again: %s",
            self._topics,
            attempt,
            described(exc),
        )
        each.message = replace(each.message, attempt=attempt + 1)
        return self._plan.delay(attempt)

    # In the thread that owns the clients

    def _finish(self, number: int, chunk: Sequence[Delivery], handled: "_Handled") -> None:
        """Write what was done; what was not stays with its partition, for which `not_before` counts."""
        done = [*zip(chunk, handled.outputs, strict=False)]
        rest: list[Delivery] = [*chunk[len(done) :]]
        not_before = time.monotonic() + handled.wait if handled.wait > 0 else 0.0
        left: list[Delivery] = []
        try:
            while done := [pair for pair in done if self._reader.holds(pair[0])]:
                part = done[: self._share]
                self._make_dead_topics(part)
                if self._transaction.is_haunted:
                    # In a new epoch. If another has taken our id over meanwhile, we fence it, and it ends: of two, one goes on. The
                    # group cannot be asked here: librdkafka aborts the process if its coordinator moves then (its issue 4605).
                    self._transaction.open(self._left)
                try:
                    self._transaction.write(part, self._reader.membership, self._left)
                except Refused as exc:
                    self.tally.aborted += 1
                    each = part[exc.number][0]
                    failed = self._failed(each, exc.fault)
                    if isinstance(failed, float):
                        after = [
                            one
                            for one, _ in done
                            if one.partition_key == each.partition_key and one.receipt >= each.receipt
                        ]
                        done = [pair for pair in done if pair[0] not in after]
                        rest, not_before = [*after, *rest], time.monotonic() + failed
                    else:
                        done[exc.number] = each, failed
                except Aborted as exc:
                    self.tally.aborted += 1
                    self._share = max(1, len(part) // 2)
                    self._after_abort(exc)
                else:
                    self._share = min(self._plan.batch, self._share * 2)
                    self._count(part)
                    done = done[len(part) :]
            left = rest
        finally:
            self._worker_queues.finish(number, left, not_before)

    def _make_dead_topics(self, part: Sequence[Done]) -> None:
        for each, outputs in part:
            if any(out.topic == dead_name(each.message.topic) for out in outputs):
                self._reader.dead_topic_for(each.message.topic)

    def _after_abort(self, exc: Aborted) -> None:
        """The group may have something to say, such as that partitions went to others."""
        LOGGER.warning("A transaction on %s is aborted, and done again: %s", self._topics, exc)
        until = time.monotonic() + exc.wait
        while True:
            self._reader.poll(0, 0.0)
            if self._stop_by is not None and time.monotonic() > self._stop_by:
                raise BrokerUnavailable("there is no more time to write it")
            if time.monotonic() >= until:
                return
            time.sleep(_TICK)

    def _count(self, part: Sequence[Done]) -> None:
        self._failures = 0
        for each, outputs in part:
            self._reader.pass_by(each)
            self.tally.read += 1
            self.tally.written += len(outputs)
            self.tally.dead += sum(out.topic == dead_name(each.message.topic) for out in outputs)

    def _meaning(self, error: Any) -> Exception:
        """Of an error that these clients do not recover from."""
        if error.code() not in FENCES:
            return meaning(error, str(self._topics))
        if self._named and self._is_taken_over():
            return self._fenced()
        return BrokerUnavailable("a transaction was open for too long, and was aborted by Kafka")

    def _fenced(self) -> Fenced:
        return Fenced(
            f"another has taken over the transactional id {self._id!r}; nothing of this one's batch was written"
        )

    def _is_taken_over(self) -> bool:
        """Kafka gives the same answer to one whose transaction it has aborted, and to one whose id somebody else has now.

        Before its time is over, no transaction is aborted. After it, whoever else has the id is in the group; one who is not there
        yet is fenced by us in turn, and knows by its own transaction that we are the one who took over. So of two, one goes on.
        """
        return not self._transaction.may_be_over or self._has_namesake()

    def _has_namesake(self) -> bool:
        """Whether another member of the group has our transactional id."""
        mine = self._reader.member_ids
        return has_member(
            self._reader.connection,
            self._group,
            lambda client, member: client == self._client_id and member not in mine,
        )


class _Handled(Outcome):
    """What handlers made of the first messages of a chunk."""

    outputs: list[list[wire.Output]] = field(default_factory=list)


def _output(out: messages.Message | wire.Output) -> wire.Output:
    fault = wire.unfit(out)
    if fault is not None:
        raise fault
    return out if isinstance(out, wire.Output) else wire.Output(out.topic, **wire.published(out))


def transform(servers: str, topic: Queues, handler: Transform, *, group: str, **options: Any) -> None:
    """Run a `Transformer` until SIGTERM."""
    Transformer(servers, topic, handler, group=group, **options).run()
