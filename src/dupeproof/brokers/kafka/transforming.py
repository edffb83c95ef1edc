"""From topic to topic, exactly once: what is read, what is written for it, and how far one is, in one Kafka transaction.

Between two polls a batch is begun and committed or aborted, all in one thread, so no rebalance falls into a transaction.
What the group thinks of us is asked for each commit: one that was thought dead meanwhile is refused, and its transaction
aborted. Crash points: before the commit, nothing is seen by those who read committed messages, and the batch is read
again, by whoever has the partition then; after it, all is.
"""

import threading
from collections.abc import Callable, Iterable, Sequence
from operator import itemgetter
from typing import Any

from msgspec import Struct

from dupeproof.brokers._sync.runtime import on_signals
from dupeproof.brokers.base import Delivery, Message, dead_name
from dupeproof.brokers.errors import BrokerUnavailable, Fenced, NotPublished
from dupeproof.brokers.faults import HOPELESS
from dupeproof.brokers.kafka import wire
from dupeproof.brokers.kafka.driver import (
    LOGGER,
    TIMEOUT,
    Config,
    check_servers,
    create_dead_topic,
    create_topic,
    kafka,
    made,
    meaning,
    refusal,
)
from dupeproof.brokers.kafka.groups import sharing
from dupeproof.brokers.kafka.producing import flush, produce, producing
from dupeproof.brokers.options import Plan, make_plan
from dupeproof.core.durations import Duration, milliseconds
from dupeproof.core.tokens import new_token
from dupeproof.keys.names import check_namespace
from dupeproof.outbox import messages
from dupeproof.outbox.failures import described

Transform = Callable[[Message], Iterable[messages.Message]]
_IDLE = 0.25


class Transformed(Struct):
    """What was done so far."""

    read: int = 0
    written: int = 0
    dead: int = 0
    aborted: int = 0
    """Transactions that were given up, and whose messages were read again."""


class Transformer:
    """Calls `handler(message)` for each message of a topic and writes what it returns, exactly once each.

    `handler` must do nothing else that matters: what it does outside Kafka is not undone when a transaction is aborted.
    With a `transactional_id` of its own, a consumer that is started anew ends what the one before left open, and
    fences it; without one, what was left open ends by itself after `transaction_timeout`. Until then those who read
    committed messages wait, and so does whoever goes on.
    """

    def __init__(
        self,
        servers: str,
        topic: str,
        handler: Transform,
        *,
        group: str,
        transactional_id: str | None = None,
        batch: int = 100,
        create: bool = False,
        max_attempts: int | None = 10,
        backoff: Duration = "1s",
        max_backoff: Duration = "1m",
        transaction_timeout: Duration = "1m",
        config: Config | None = None,
    ) -> None:
        self._timeout = milliseconds(transaction_timeout, name="transaction_timeout")
        self._plan: Plan = make_plan(
            batch=batch, max_attempts=max_attempts, backoff=backoff, max_backoff=max_backoff
        )
        self._handler = handler
        self._topic = topic
        self._create = create
        self._named = transactional_id is not None
        self._id = transactional_id or f"{check_namespace(group)}.{topic}.{new_token().hex()}"
        self._connection = {"bootstrap.servers": check_servers(servers), **(config or {})}
        sharing(config or {})  # what cannot be is told now
        self._reading = {
            "group.id": check_namespace(group),
            "enable.auto.commit": False,
            "auto.offset.reset": "earliest",
            "isolation.level": "read_committed",
            **self._connection,
        }
        self._stopping = threading.Event()
        self._failures: dict[tuple[int, int], _Failure] = {}
        self._refusals: list[tuple[int, NotPublished]] = []
        self.tally = Transformed()

    def run(self) -> None:
        """Until `stop`, SIGTERM or Ctrl-C. Raises `Fenced` when another took over this `transactional_id`."""
        try:
            with on_signals(self.stop):
                failures = 0
                while not self._stopping.is_set():
                    try:
                        self._serve()
                    except BrokerUnavailable as exc:
                        failures += 1
                        LOGGER.warning("Cannot transform %s, trying again: %s", self._topic, exc)
                        self._stopping.wait(self._plan.delay(failures))
        finally:
            self._stopping.clear()

    def stop(self) -> None:
        """End after the batch in hand."""
        self._stopping.set()

    def _serve(self) -> None:
        """With one pair of clients, until it is time to stop or they are of no use any more."""
        if self._create:
            create_topic(self._connection, self._topic)
        self._dead_topic_is_there = False
        consumer = self._consumer = made(kafka.Consumer, self._reading)
        try:
            terms = {"transactional.id": self._id, "transaction.timeout.ms": self._timeout}
            self._producer = producing(self._connection, min(TIMEOUT, self._timeout / 1_000), **terms)
            self._producer.init_transactions(TIMEOUT)
            consumer.subscribe([self._topic])
            size = self._plan.batch
            while not self._stopping.is_set():
                records = [each for each in consumer.consume(size, _IDLE) if self._is_message(each)]
                size = self._transact(records) if records else self._plan.batch
        except kafka.KafkaException as exc:
            raise self._ended(exc.args[0]) from exc
        finally:
            consumer.close()

    def _is_message(self, record: Any) -> bool:
        error = record.error()
        if error is None:
            return True
        found = meaning(error, self._topic)
        if not isinstance(found, BrokerUnavailable):
            raise found
        LOGGER.warning("Kafka: %s", error.str())
        return False

    def _transact(self, records: Sequence[Any]) -> int:
        """All of it, or nothing. How many to read next: up to the message that failed, so that it comes first then."""
        size = self._plan.batch
        self._refusals.clear()
        self._producer.begin_transaction()
        try:
            written = [topic for number, each in enumerate(records) for topic in self._write(each, number)]
            self._see_written(records)
            ends = {each.partition(): each.offset() + 1 for each in records}
            offsets = [kafka.TopicPartition(self._topic, *end) for end in ends.items()]
            # Fresh each time: as old as the batch, it would let one write that has lost its partitions meanwhile.
            metadata = self._consumer.consumer_group_metadata()
            self._producer.send_offsets_to_transaction(offsets, metadata, TIMEOUT)
            self._commit()
        except kafka.KafkaException as exc:
            error = exc.args[0]
            if error.fatal():
                raise
            LOGGER.warning("A transaction on %s is aborted: %s", self._topic, error.str())
        except _HandlerFailed as exc:
            LOGGER.warning("A message of %s failed, its transaction is aborted: %s", self._topic, exc)
            size = exc.number or size
            if exc.number == 0:
                self._stopping.wait(exc.wait)
        else:
            for each in records:
                self._failures.pop(_place(each), None)
            self.tally.read += len(records)
            self.tally.written += len(written)
            self.tally.dead += written.count(dead_name(self._topic))
            return size
        self._abort(records)
        return size

    def _commit(self) -> None:
        while True:
            try:
                self._producer.commit_transaction(TIMEOUT)
            except kafka.KafkaException as exc:
                if not exc.args[0].retriable():
                    raise
            else:
                return

    def _abort(self, records: Sequence[Any]) -> None:
        """And read the same messages again, where they are still ours."""
        self._producer.abort_transaction(TIMEOUT)
        self.tally.aborted += 1
        starts: dict[int, int] = {}
        for each in records:
            starts.setdefault(each.partition(), each.offset())
        ours = {each.partition for each in self._consumer.assignment()}
        for partition, offset in starts.items():
            if partition in ours:
                self._consumer.seek(kafka.TopicPartition(self._topic, partition, offset))

    def _write(self, record: Any, number: int) -> list[str]:
        """What the handler makes of it, as part of the transaction; where to."""
        each = wire.received(record, "")
        failure = self._failures.get(_place(record))
        if failure is not None and failure.is_last:
            written = [self._aside(each, failure.error)]
        else:
            try:
                written = [self._output(out) for out in self._handler(each.message)]
            except Exception as exc:
                raise self._failed(record, number, exc) from exc
        for topic, fields in written:
            try:
                produce(self._producer, topic, fields, self._told(topic, number), TIMEOUT)
            except kafka.KafkaException as exc:
                fault = refusal(exc.args[0], topic)
                if fault is None:
                    raise
                raise self._failed(record, number, fault) from exc
        return [topic for topic, _ in written]

    @staticmethod
    def _output(message: messages.Message) -> tuple[str, wire.Record]:
        fault = wire.unfit(message)
        if fault is not None:
            raise fault
        return message.topic, wire.published(message)

    def _told(self, topic: str, number: int) -> Any:
        def answer(error: Any, _: Any) -> None:
            fault = None if error is None else refusal(error, topic)
            if fault is not None:
                self._refusals.append((number, fault))

        return answer

    def _see_written(self, records: Sequence[Any]) -> None:
        """Wait for the broker's answers: what it refuses is the fault of the message it was made for."""
        flush(self._producer, TIMEOUT)
        if self._refusals:
            number, fault = min(self._refusals, key=itemgetter(0))
            raise self._failed(records[number], number, fault)

    def _failed(self, record: Any, number: int, exc: Exception) -> "_HandlerFailed":
        """Count it. After the last try the message is put aside, in the next transaction."""
        known = self._failures.get(_place(record))
        attempt = 1 if known is None else known.attempts + 1
        limit = self._plan.max_attempts
        is_last = isinstance(exc, HOPELESS) or (limit is not None and attempt >= limit)
        self._failures[_place(record)] = _Failure(attempt, exc, is_last)
        return _HandlerFailed(exc, number, 0.0 if is_last else self._plan.delay(attempt))

    def _aside(self, each: Delivery, exc: Exception) -> tuple[str, wire.Record]:
        if not self._dead_topic_is_there:
            create_dead_topic(self._connection, self._topic)
            self._dead_topic_is_there = True
        return dead_name(self._topic), wire.put_aside(each, described(exc), self._topic)

    def _ended(self, error: Any) -> Exception:
        """After an error that these clients do not recover from."""
        if error.code() in (kafka.KafkaError._FENCED, kafka.KafkaError.PRODUCER_FENCED):  # noqa: SLF001
            text = f"another has taken over the transactional id {self._id!r}; nothing of this one's batch was written"
            return Fenced(text) if self._named else BrokerUnavailable(text)
        return meaning(error, self._topic)


def _place(record: Any) -> tuple[int, int]:
    return record.partition(), record.offset()


class _Failure(Struct):
    """What became of a message so far."""

    attempts: int
    error: Exception
    is_last: bool


class _HandlerFailed(Exception):
    def __init__(self, error: Exception, number: int, wait: float) -> None:
        super().__init__(described(error))
        self.number = number
        """Which of the batch it was."""
        self.wait = wait


def transform(servers: str, topic: str, handler: Transform, *, group: str, **options: Any) -> None:
    """Run a `Transformer` until SIGTERM."""
    Transformer(servers, topic, handler, group=group, **options).run()
