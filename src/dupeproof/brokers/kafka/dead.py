# No twin: confluent-kafka is for threads, and nobody waits for dead letters in a task.
"""Dead letters in a topic of Kafka, from which nothing can be taken out.

So a consumer group of our own knows which of them are done with. What is put back, and that it was, is one transaction: a
crash leaves both or neither. The transaction belongs to the topic, so of two commands that work on one at a time the first is
refused. Where all before a place are done with, Kafka is asked to delete them.
"""

import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import suppress
from functools import partial
from typing import Any, NamedTuple, TypeVar

from dupeproof.brokers.base import ATTEMPTS, ORIGIN, REASON
from dupeproof.brokers.dead import GONE, DeadLetter, as_count, nothing_there, places_of
from dupeproof.brokers.errors import BrokerUnavailable, NotPublished
from dupeproof.brokers.kafka import handled, wire
from dupeproof.brokers.kafka.driver import (
    CONNECT_SECONDS,
    LOGGER,
    TIMEOUT,
    AdminClient,
    complaining,
    connection,
    fatal_as_such,
    kafka,
    made,
    meaning,
    refusal,
)
from dupeproof.brokers.kafka.handled import Handled
from dupeproof.brokers.kafka.producer import flush, produce, producing
from dupeproof.brokers.kafka.transaction import FENCES
from dupeproof.core.crashes import armed, reached
from dupeproof.errors import ConfigError

T = TypeVar("T")
_AT_ONCE = 500
_SORTED = 10_000
"""Up to so many are shown by their time. More are read a partition after the other."""
_TRANSACTION = 30.0
_STEP = 1.0
_STABLE = 5.0
"""Seconds that a transaction which was committed may take to be seen."""
_LOOK = 0.05
_UNSTABLE = (
    kafka.KafkaError.UNSTABLE_OFFSET_COMMIT,
    kafka.KafkaError._TIMED_OUT,  # noqa: SLF001 - so it is called by its library
)
_END = kafka.KafkaError._PARTITION_EOF  # noqa: SLF001 - so it is called by its library
_GROUP = "dupeproof-dead-letters-of-{}"


class _Quiet:
    """Stands where the library wants a logger. What matters to somebody at a terminal is an error of ours."""

    def log(self, _: int, text: str, *args: Any) -> None:
        LOGGER.debug(text, *args)


_QUIET = _Quiet()


class _Receipt(NamedTuple):
    partition: int
    covers: tuple[int, int]
    """From after the record before it up to after its own: what is no record, such as the end of a transaction, belongs to
    the letter behind it."""
    sent: wire.Revived
    to: int | None
    """The partition it came from."""


class KafkaDeadLetters:
    def __init__(self, url: str, queue: str, dead: str | None) -> None:
        if queue.startswith("^"):
            raise ConfigError(
                "dead letters are looked at topic by topic; give the name of one, not a pattern"
            )
        self._source, self.name = places_of(queue, dead)
        self._group = _GROUP.format(self.name)
        self._connection = connection(url)
        self._consumer: Any = None
        self._config: dict[str, Any] = {}
        self._producer: Any = None
        self._partitions: list[int] = []
        self._handled: dict[int, Handled] = {}
        self._ends: dict[int, tuple[int, int]] = {}
        """Where each partition begins and ends."""
        self._sizes: dict[str, int] = {}

    def open(self) -> None:
        ours = {
            "group.id": self._group,
            "enable.auto.commit": False,
            "enable.partition.eof": True,
            "auto.offset.reset": "earliest",
            "isolation.level": "read_committed",
            "error_cb": complaining(self._connection),
        }
        self._config = {**ours, **self._connection}
        self._consumer = made(kafka.Consumer, self._config, _QUIET)
        self._sizes.clear()
        self._ends.clear()
        count = self._size(self.name)
        if not count and not self._size(self._source):
            raise nothing_there("topic", self._source, self.name)
        self._partitions = [*range(count)]

    def _size(self, topic: str) -> int:
        """How many partitions it has; none where it is not there."""
        if topic not in self._sizes:
            found = self._asked(lambda: self._consumer.list_topics(topic, CONNECT_SECONDS)).topics[topic]
            if found.error is not None:
                fault = meaning(found.error, topic)
                if refusal(found.error, topic) is None:
                    raise fault
            self._sizes[topic] = len(found.partitions)
        return self._sizes[topic]

    def _asked(self, ask: Callable[[], T], topic: str = "") -> T:
        try:
            with fatal_as_such():
                return ask()
        except kafka.KafkaException as exc:
            error = exc.args[0]
            if error.code() in FENCES:
                raise ConfigError(
                    f"another command has begun to work on the dead letters of {self.name!r}; see what is left, and try again"
                ) from exc
            raise meaning(error, topic or self.name, self._connection) from exc

    def _committed(self) -> dict[int, Handled]:
        places = [kafka.TopicPartition(self.name, number) for number in self._partitions]
        for place in places:
            self._ends[place.partition] = self._asked(partial(self._watermarks, place))
        found = self._positions(places)
        known = {each.partition: handled.read(each.offset, each.metadata or "") for each in found}
        # A position beyond the end is one of a topic that was made anew since.
        return {
            number: Handled(0) if each.position > self._ends[number][1] else each
            for number, each in known.items()
        }

    def _positions(self, places: list[Any]) -> list[Any]:
        """What is committed for good, for which Kafka may need a moment. A command that was killed in its transaction leaves one
        open until Kafka aborts it; meanwhile it counts for nothing, and the consumer that says what was before is another one.
        """
        give_up = time.monotonic() + _STABLE
        while True:
            try:
                with fatal_as_such():
                    found = self._consumer.committed(places, _STEP)
            except kafka.KafkaException as exc:
                fault = meaning(exc.args[0], self.name, self._connection)
                is_late = time.monotonic() > give_up and exc.args[0].code() not in _UNSTABLE
                if is_late or not isinstance(fault, BrokerUnavailable):
                    raise fault from exc
            else:
                if all(each.error is None for each in found):
                    return list(found)
            if time.monotonic() > give_up:
                return self._positions_before(places)
            time.sleep(_LOOK)

    def _positions_before(self, places: list[Any]) -> list[Any]:
        other = made(kafka.Consumer, {**self._config, "isolation.level": "read_uncommitted"}, _QUIET)
        try:
            return list(self._asked(lambda: other.committed(places, TIMEOUT)))
        finally:
            other.close()

    def _watermarks(self, place: Any) -> tuple[int, int]:
        low, high = self._consumer.get_watermark_offsets(place, TIMEOUT)
        return low, high

    def scan(self, most: int) -> Iterator[DeadLetter]:
        """Up to the end of now, by their time where they are few, else by partition."""
        self._handled = self._committed() if self._partitions else {}
        if most > _SORTED:
            for letter in self._all(most):
                most -= 1
                yield letter
                if most <= 0:
                    return
            return
        found = sorted(self._all(most), key=lambda each: each.receipt.sent.timestamp()[1])
        yield from found[:most]

    def _all(self, most: int) -> Iterator[DeadLetter]:
        """Of each partition at most so many."""
        for number in self._partitions:
            low, high = self._ends[number]
            count = 0
            end = max(low, self._handled[number].position)
            for raw in self._read(number, end, high):
                covers, end = (end, raw.offset() + 1), raw.offset() + 1
                if raw.offset() in self._handled[number]:
                    continue
                count += 1
                yield self._letter(raw, covers)
                if count == most:
                    break

    def _read(self, number: int, start: int, end: int) -> Iterator[Any]:
        if start >= end:
            return
        self._asked(lambda: self._consumer.assign([kafka.TopicPartition(self.name, number, start)]))
        give_up = time.monotonic() + TIMEOUT
        while True:
            for message in self._asked(self._some):
                error = message.error()
                if error is None and message.offset() < end:
                    yield message
                    give_up = time.monotonic() + TIMEOUT
                elif error is None or error.code() == _END:
                    return
                elif not isinstance(meaning(error, self.name), BrokerUnavailable):
                    raise meaning(error, self.name)
            if time.monotonic() > give_up:
                raise BrokerUnavailable(f"Kafka sends nothing of {self.name!r}, and does not say why")

    def _some(self) -> list[Any]:
        """The library would wait for as many as it is asked for."""
        first = self._consumer.consume(1, _STEP)
        return [*first, *(self._consumer.consume(_AT_ONCE, 0) if first else ())]

    def _letter(self, raw: Any, covers: tuple[int, int]) -> DeadLetter:
        told = wire.told(raw)
        queue = told.get(ORIGIN) or self._source
        revived = wire.revived(raw, queue)
        to = as_count(told.get(wire.PARTITION))
        return DeadLetter(
            place=f"@{raw.partition()}:{raw.offset()}",
            queue=queue,
            reason=told.get(REASON, ""),
            attempts=as_count(told.get(ATTEMPTS)),
            died=wire.moment(raw),
            message=wire.received(revived, "").message,
            receipt=_Receipt(raw.partition(), covers, revived, to),
        )

    def keep(self, letter: DeadLetter) -> None:
        """To read it has changed nothing."""

    def put_back(self, letters: Sequence[DeadLetter]) -> list[NotPublished | None]:
        return self._moved(letters, publish=True)

    def remove(self, letters: Sequence[DeadLetter]) -> list[NotPublished | None]:
        return self._moved(letters, publish=False)

    def _moved(self, letters: Sequence[DeadLetter], *, publish: bool) -> list[NotPublished | None]:
        """Together; where Kafka does not take one of them, each alone."""
        self._begin()
        gone = NotPublished("it is no longer there", reason=GONE)
        there = [
            each
            for each in letters
            if each.receipt.sent.offset() not in self._handled[each.receipt.partition]
        ]
        answers: dict[str, NotPublished | None] = {each.place: gone for each in letters}
        if there:
            fault = self._transact(there, publish=publish)
            alone = fault is not None and len(there) > 1
            for each in there:
                answers[each.place] = self._transact([each], publish=publish) if alone else fault
        return [answers[each.place] for each in letters]

    def _begin(self) -> None:
        """Ends what another command has left open, and fences it; only then what is done with is for us to say."""
        if self._producer is not None:
            return
        terms = {"transactional.id": self._group, "transaction.timeout.ms": round(_TRANSACTION * 1_000)}
        self._producer = producing(self._connection, TIMEOUT, _QUIET, **terms)
        self._insist(self._producer.init_transactions)
        self._handled = self._committed()

    def _insist(self, ask: Callable[[float], None]) -> None:
        give_up = time.monotonic() + TIMEOUT
        while True:
            try:
                with fatal_as_such():
                    ask(_STEP)
            except kafka.KafkaException as exc:
                if not exc.args[0].retriable() or time.monotonic() > give_up:
                    raise
            else:
                return

    def _transact(self, letters: Sequence[DeadLetter], *, publish: bool) -> NotPublished | None:
        """All or none; with the fault of the first that Kafka does not take."""
        ends = dict(self._handled)
        for each in letters:
            receipt: _Receipt = each.receipt
            ends[receipt.partition] = ends[receipt.partition].and_also([receipt.covers])
        offsets = [
            kafka.TopicPartition(self.name, number, ends[number].position, metadata=ends[number].text)
            for number in {each.receipt.partition for each in letters}
        ]
        return self._asked(lambda: self._write(letters if publish else (), offsets, ends))

    def _write(
        self, letters: Sequence[DeadLetter], offsets: Sequence[Any], ends: dict[int, Handled]
    ) -> NotPublished | None:
        self._producer.begin_transaction()
        errors: list[tuple[Any, str]] = []
        try:
            for each in letters:
                self._produce(each, errors)
            flush(self._producer, TIMEOUT + 1)
            if not errors:
                shown = self._consumer.consumer_group_metadata()
                self._insist(
                    lambda seconds: self._producer.send_offsets_to_transaction(offsets, shown, seconds)
                )
        except kafka.KafkaException as exc:
            if exc.args[0].txn_requires_abort():
                self._insist(self._producer.abort_transaction)
            raise
        if not errors:
            if armed:
                reached("after-publish-before-removal")
            self._insist(self._producer.commit_transaction)
            self._handled = ends
            return None
        self._insist(self._producer.abort_transaction)
        for error, topic in errors:
            fault = refusal(error, topic)
            if fault is not None:
                return fault
        raise kafka.KafkaException(errors[0][0])

    def _produce(self, letter: DeadLetter, errors: list[tuple[Any, str]]) -> None:
        topic = letter.queue or self._source

        def answer(error: Any, _: Any) -> None:
            if error is not None:
                errors.append((error, topic))

        record = letter.receipt.sent.output.record
        if letter.receipt.to is not None and letter.receipt.to < self._size(topic):
            record = {**record, "partition": letter.receipt.to}
        try:
            produce(self._producer, topic, record, answer, TIMEOUT)
        except kafka.KafkaException as exc:
            if refusal(exc.args[0], topic) is None:
                raise
            errors.append((exc.args[0], topic))

    def finish(self) -> None:
        """Delete what is done with, where this user may. What is not deleted is known as done all the same."""
        done = [
            kafka.TopicPartition(self.name, number, each.position)
            for number, each in self._handled.items()
            if each.position > self._ends[number][0]
        ]
        if self._producer is None or not done:
            return
        admin = made(AdminClient, self._connection, _QUIET)
        for place, answer in admin.delete_records(done, request_timeout=CONNECT_SECONDS).items():
            try:
                answer.result(CONNECT_SECONDS + 1)
            except (kafka.KafkaException, TimeoutError) as exc:
                LOGGER.info(
                    "Kafka did not delete dead letters of %s that are done with: %s", place.topic, exc
                )

    def close(self) -> None:
        consumer, self._consumer = self._consumer, None
        producer, self._producer = self._producer, None
        if producer is not None:
            producer.purge()
            with suppress(kafka.KafkaException):  # one that was fenced has told so before
                flush(producer, _STEP)
        if consumer is not None:
            consumer.close()
