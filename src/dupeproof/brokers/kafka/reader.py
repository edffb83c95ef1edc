"""A member of a consumer group: reads its partitions in order, and knows which of them it still has.

What it calls belongs to one thread. `take` is called, from inside a poll, when partitions are assigned.
"""

from collections import defaultdict, deque
from collections.abc import Callable, Iterable, Sequence
from typing import Any

from dupeproof.brokers.base import Ack, Dead, Delivery, Retry, Settled
from dupeproof.brokers.errors import BrokerUnavailable
from dupeproof.brokers.faults import not_now
from dupeproof.brokers.kafka import wire
from dupeproof.brokers.kafka._async.positions import NEW
from dupeproof.brokers.kafka.driver import (
    CONNECT_SECONDS,
    LOGGER,
    TIMEOUT,
    Config,
    check_servers,
    create_dead_topic,
    create_topic,
    kafka,
    made,
    meaning,
)
from dupeproof.brokers.kafka.groups import sharing
from dupeproof.brokers.kafka.producing import producing, send
from dupeproof.core.tokens import new_token

Take = Callable[[list[int], str], dict[int, int]]
"""Makes partitions ours in the database; answers from which offset to read each, below zero for what Kafka knows."""
_AHEAD = 1_000
"""Messages that may come while nobody wants any, before the partitions are paused."""


class Reader:
    def __init__(
        self, servers: str, topic: str, group: str, *, create: bool, config: Config, take: Take | None
    ) -> None:
        self.topic = topic
        self._create = create
        self._take = take
        self._connection = {"bootstrap.servers": check_servers(servers), **config}
        ours, self._eager = sharing(config)
        self._config = {
            "group.id": group,
            "enable.auto.commit": False,
            "enable.auto.offset.store": False,
            "auto.offset.reset": "earliest",
            "isolation.level": "read_committed",
            "error_cb": self._failed,
            **ours,
            **self._connection,
        }
        self._consumer: Any = None
        self._producer: Any = None
        self._arrived: defaultdict[int, deque[Any]] = defaultdict(deque)
        """By partition: what came and nobody wanted yet."""
        self._out: defaultdict[int, deque[int]] = defaultdict(deque)
        """By partition: offsets that were handed over and are not settled, in their order."""
        self._stuck: set[int] = set()
        """Partitions of which all that may be in work is, while others could go on. They are paused."""
        self._owned: dict[int, str] = {}
        self._begun_to: dict[int, int | None] = {}
        """Partitions that somebody had before us, and below which offset it may have begun messages; None before the first."""
        self._in_work = 0
        self._ends: dict[int, int] = {}
        self._paused = False
        self._fault: Any = None
        self._untaken: Exception | None = None

    def open(self, most: int) -> None:
        """`most` of a partition are in work at a time: that many may have been begun by who had it before."""
        self._in_work = most
        self._paused = False
        self._fault = self._untaken = None
        if self._create:
            create_topic(self._connection, self.topic)
        self._consumer = made(kafka.Consumer, self._config)
        self._look()
        self._consumer.subscribe(
            [self.topic], on_assign=self._assigned, on_revoke=self._revoked, on_lost=self._lost
        )

    def _look(self) -> None:
        """Whether the topic is there; subscribing to one that is not would wait for it quietly."""
        try:
            found = self._consumer.list_topics(self.topic, CONNECT_SECONDS).topics[self.topic].error
        except kafka.KafkaException as exc:
            raise meaning(self._fault or exc.args[0], self.topic) from exc
        if found is not None:
            raise meaning(found, self.topic)

    def _failed(self, error: Any) -> None:
        """The library goes on by itself after most troubles; a refused login is not one of those."""
        LOGGER.warning("Kafka: %s", error.str())
        if not isinstance(meaning(error), BrokerUnavailable) or error.fatal():
            self._fault = error

    # While others come and go

    def _assigned(self, consumer: Any, partitions: Sequence[Any]) -> None:
        owner = new_token().hex()
        numbers = [each.partition for each in partitions]
        try:
            starts = {} if self._take is None or not numbers else self._take(numbers, owner)
        except Exception as exc:
            if not (isinstance(exc, OSError) or not_now(exc)):
                raise
            # Not to be read from a place we do not know. To join the group anew is to be asked anew.
            self._untaken = exc
            return
        for each in partitions:
            self._forget(each.partition)
            self._owned[each.partition] = owner
            self._begun_to.pop(each.partition, None)
            if starts.get(each.partition, NEW) != NEW:
                self._begun_to[each.partition] = None
            if starts.get(each.partition, -1) >= 0:
                each.offset = starts[each.partition]
        if self._eager:
            consumer.assign(partitions)
        else:
            consumer.incremental_assign(partitions)
        if self._paused:
            consumer.pause(partitions)

    def _revoked(self, consumer: Any, partitions: Sequence[Any]) -> None:
        """Still a member: what is done so far may be told, before the others begin where we say."""
        self._commit({each.partition for each in partitions}, wait=True)
        self._give_up(consumer, partitions)

    def _lost(self, consumer: Any, partitions: Sequence[Any]) -> None:
        """Too late to say anything: others have begun already."""
        LOGGER.warning(
            "Partitions %s of %s went to others, because this consumer was not heard of for too long",
            [each.partition for each in partitions],
            self.topic,
        )
        self._give_up(consumer, partitions)

    def _give_up(self, consumer: Any, partitions: Sequence[Any]) -> None:
        paused = [each for each in partitions if self._paused or each.partition in self._stuck]
        if paused:
            consumer.resume(paused)  # not to be found paused, should they come back
        for each in partitions:
            self._forget(each.partition)
        if self._eager:
            consumer.unassign()
        else:
            consumer.incremental_unassign(partitions)

    def _forget(self, partition: int) -> None:
        """If it comes back, it is read anew from where the others got to."""
        self._owned.pop(partition, None)
        self._ends.pop(partition, None)
        self._arrived.pop(partition, None)
        self._out.pop(partition, None)
        self._stuck.discard(partition)

    def holds(self, delivery: Delivery) -> bool:
        partition, _, owner = delivery.receipt
        return bool(self._owned.get(partition) == owner)

    # Reading and telling

    def poll(self, most: int, seconds: float) -> list[Delivery]:
        try:
            self._fetch(most, seconds)
        except kafka.KafkaException as exc:
            raise meaning(exc.args[0], self.topic) from exc
        if self._fault is not None:
            raise meaning(self._fault, self.topic)
        if self._untaken is not None:
            raise BrokerUnavailable(
                f"the database, which knows how far we are in {self.topic}, is down"
            ) from self._untaken
        taken = self._taken(most)
        if len(taken) < most:
            self._pause_stuck()
        return [
            wire.received(message, self._owned[message.partition()], redelivered=self._may_be_begun(message))
            for message in taken
        ]

    def _deliverable(self, partition: int) -> int:
        """How many of a partition may be handed over now."""
        return max(0, min(len(self._arrived[partition]), self._in_work - len(self._out[partition])))

    def _taken(self, most: int) -> list[Any]:
        """From each partition in turn, in its order."""
        taken: list[Any] = []
        for partition in [*self._arrived]:
            some = min(most - len(taken), self._deliverable(partition))
            if some == 0:
                continue
            waiting = self._arrived.pop(partition)
            for _ in range(some):
                message = waiting.popleft()
                self._out[partition].append(message.offset())
                taken.append(message)
            if waiting:
                self._arrived[partition] = waiting  # as the last
        return taken

    def _pause_stuck(self) -> None:
        """There is room, yet of these no more may be handed over: one that is not done holds them up."""
        found = {partition for partition, waiting in self._arrived.items() if waiting} - self._stuck
        if found:
            LOGGER.info("Partitions %s of %s are paused: a message has to succeed first", found, self.topic)
            self._stuck |= found
            self._consumer.pause(self._places(found))

    def _resume_unstuck(self) -> None:
        found = {partition for partition in self._stuck if 2 * len(self._out[partition]) <= self._in_work}
        self._stuck -= found
        if found and not self._paused:
            self._consumer.resume(self._places(found))

    def _places(self, partitions: Iterable[int]) -> list[Any]:
        return [kafka.TopicPartition(self.topic, partition) for partition in sorted(partitions)]

    def _may_be_begun(self, message: Any) -> bool:
        """Whether it is one of the first since the partition is ours, with which its former owner may have died."""
        partition, offset = message.partition(), message.offset()
        if partition not in self._begun_to:
            return False
        end = self._begun_to[partition]
        if end is None:
            end = self._begun_to[partition] = offset + self._in_work
        return bool(offset < end)

    def _fetch(self, most: int, seconds: float) -> None:
        """Always asks the library, which counts us as alive by that. What nobody wants yet is kept, up to a limit."""
        self._resume_unstuck()
        wanted = most - sum(self._deliverable(partition) for partition in [*self._arrived])
        others = self._owned.keys() - self._stuck
        if self._paused and wanted > 0:
            self._consumer.resume(self._places(others))
            self._paused = False
        elif (
            not self._paused
            and wanted <= 0
            and sum(len(self._arrived[each]) for each in others & self._arrived.keys()) >= _AHEAD
        ):
            self._consumer.pause(self._places(others))
            self._paused = True
        for message in self._consumer.consume(max(1, wanted), seconds if wanted == most > 0 else 0):
            error = message.error()
            if error is None:
                if message.partition() in self._owned:
                    self._arrived[message.partition()].append(message)
            elif isinstance(meaning(error), BrokerUnavailable):
                LOGGER.warning("Kafka: %s", error.str())
            else:
                raise meaning(error, self.topic)

    def settle(self, settled: Sequence[Settled]) -> None:
        """In the order of each partition. What is to be tried again is simply not past yet."""
        for each, verdict in settled:
            if isinstance(verdict, Dead):
                self._bury(each, verdict.reason)
            partition, offset, _ = each.receipt
            if isinstance(verdict, Ack | Dead):
                self._ends[partition] = offset + 1
            if not isinstance(verdict, Retry):
                out = self._out[partition]
                while out and out[0] <= offset:
                    out.popleft()
        self._commit(set(self._ends), wait=False)

    def _bury(self, each: Delivery, reason: str) -> None:
        if self._producer is None:
            self._dead_topic = create_dead_topic(self._connection, self.topic)
            self._producer = producing(self._connection, TIMEOUT)
        aside = wire.put_aside(each, reason, self.topic)
        [error] = send(self._producer, [(self._dead_topic, aside)], TIMEOUT)
        if error is not None:
            raise error

    def _commit(self, partitions: set[int], *, wait: bool) -> None:
        """With positions in the database this is for those who watch the lag; without, it is what counts."""
        offsets = [
            kafka.TopicPartition(self.topic, partition, self._ends.pop(partition))
            for partition in partitions & self._ends.keys()
        ]
        if not offsets:
            return
        try:
            self._consumer.commit(offsets=offsets, asynchronous=not wait)
        except kafka.KafkaException as exc:
            LOGGER.warning(
                "Positions in %s were not committed, some messages come again: %s",
                self.topic,
                exc.args[0].str(),
            )

    def close(self) -> None:
        consumer, self._consumer = self._consumer, None
        for partition in [*self._owned]:
            self._forget(partition)
        self._paused = False
        self._producer = None
        if consumer is not None:
            consumer.close()
