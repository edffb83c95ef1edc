"""A member of a consumer group: reads its partitions in order, and knows which of them it still has.

What it calls belongs to one thread. Positions are taken, from inside a poll, when partitions are assigned.
"""

import threading
from collections import defaultdict, deque
from collections.abc import Iterable, Mapping, Sequence
from types import MappingProxyType
from typing import Any, Protocol

from msgspec import Struct

from dupeproof.brokers.base import Ack, Dead, Decided, Delivery, Retry
from dupeproof.brokers.errors import BrokerUnavailable, not_now
from dupeproof.brokers.kafka import wire
from dupeproof.brokers.kafka.admin import TopicIds
from dupeproof.brokers.kafka.driver import (
    CONNECT_SECONDS,
    LOGGER,
    TIMEOUT,
    Config,
    connection,
    create_dead_topic,
    create_topic,
    kafka,
    made,
    meaning,
)
from dupeproof.brokers.kafka.groups import sharing
from dupeproof.brokers.kafka.producer import producing, send
from dupeproof.brokers.kafka.topics import Topics
from dupeproof.brokers.kafka.wire import Place
from dupeproof.core.tokens import new_token
from dupeproof.errors import ConfigError

_AHEAD = 1_000
"""Messages that may come while nobody wants any, before the partitions are paused."""
_END = kafka.KafkaError._PARTITION_EOF  # noqa: SLF001 - so it is called by its library


class Start(Struct, frozen=True):
    """Where a partition is to be read from, by what is written in the database."""

    offset: int
    """Below zero for what Kafka knows."""
    had: bool
    """Somebody of the group had it before."""
    sure: bool = True
    """The position is one of the topic that has the name now; or there is none."""
    anew: bool = False
    """The topic was made anew, and is read from its beginning."""


class Positions(Protocol):
    """How far the group is, in a database."""

    def take(self, places: Mapping[Place, str], owner: str) -> dict[Place, Start]:
        """Make partitions ours. For each the id of its topic, empty where it is not known."""
        ...

    def confirm(self, places: Mapping[Place, tuple[int, str]], owner: str) -> None:
        """Write down the offset, and that it is one of this topic."""
        ...


class Reader:
    def __init__(
        self,
        servers: str,
        topics: Topics,
        group: str,
        *,
        create: bool,
        config: Config,
        positions: Positions | None,
        ours: Config = MappingProxyType({}),
    ) -> None:
        self.topics = topics
        if create and topics.has_pattern:
            raise ConfigError(
                "create=True makes the topics that are named; a pattern names none, so leave it out"
            )
        self._create = create
        self._positions = positions
        self.connection = connection(servers, config)
        shared, self._eager = sharing(config)
        self._config = {
            "group.id": group,
            "enable.auto.commit": False,
            "enable.auto.offset.store": False,
            "enable.partition.eof": True,
            "auto.offset.reset": "earliest",
            "isolation.level": "read_committed",
            "error_cb": self._failed,
            **topics.config,
            **shared,
            **ours,
            **self.connection,
        }
        self._consumer: Any = None
        self._producer: Any = None
        self._dead_topics: set[str] = set()
        self._ids = TopicIds(self.connection)
        self._arrived: defaultdict[Place, deque[Any]] = defaultdict(deque)
        """By partition: what came and nobody wanted yet."""
        self._out: defaultdict[Place, deque[int]] = defaultdict(deque)
        """By partition: offsets that were handed over and are not decided, in their order."""
        self._stuck: set[Place] = set()
        """Partitions of which all that may be in work is, while others could go on. They are paused."""
        self._owned: dict[Place, str] = {}
        self._begun_to: dict[Place, int | None] = {}
        """Partitions that somebody had before us, and below which offset it may have begun messages; None before the first."""
        self._read_to: dict[Place, int] = {}
        """The offset after the last that came, or at which there is nothing yet."""
        self._shortened: set[Place] = set()
        """Partitions that began before where we were, and are looked at once more."""
        self._in_work = 0
        self._ends: dict[Place, int] = {}
        self._paused = False
        self._fault: Any = None
        self._untaken: Exception | None = None
        self.member_ids: set[str] = set()
        """Under which the group has known us."""

    def open(self, most: int) -> None:
        """`most` of a partition are in work at a time: that many may have been begun by who had it before."""
        self._in_work = most
        self._paused = False
        self._fault = self._untaken = None
        for topic in self.topics.named if self._create else ():
            create_topic(self.connection, topic)
        self._consumer = made(kafka.Consumer, self._config)
        for topic in self.topics.named:
            self._look(topic)
        try:
            self._consumer.subscribe(
                self.topics.subscribed, on_assign=self._assigned, on_revoke=self._revoked, on_lost=self._lost
            )
        except kafka.KafkaException as exc:
            raise meaning(exc.args[0], str(self.topics)) from exc

    def _look(self, topic: str) -> None:
        """Whether the topic is there; subscribing to one that is not would wait for it quietly."""
        try:
            found = self._consumer.list_topics(topic, CONNECT_SECONDS).topics[topic].error
        except kafka.KafkaException as exc:
            raise meaning(self._fault or exc.args[0], topic, self.connection) from exc
        if found is not None:
            raise meaning(found, topic)

    def _failed(self, error: Any) -> None:
        """The library goes on by itself after most troubles; a refused login is not one of those."""
        LOGGER.warning("Kafka: %s", error.str())
        if not isinstance(meaning(error, config=self.connection), BrokerUnavailable) or error.fatal():
            self._fault = error

    # While others come and go

    def _assigned(self, consumer: Any, partitions: Sequence[Any]) -> None:
        if consumer is not self._consumer:
            return  # it is being closed
        owner = new_token().hex()
        self.member_ids.add(consumer.memberid() or "")
        wanted = [each for each in partitions if self.topics.wants(each.topic)]
        try:
            starts = self._starts({_place(each) for each in wanted}, owner)
        except Exception as exc:
            if not (isinstance(exc, OSError | BrokerUnavailable) or not_now(exc)):
                raise
            # Not to be read from a place we do not know. To join the group anew is to be asked anew.
            self._untaken = exc
            return
        for each in wanted:
            place = _place(each)
            start = starts.get(place, Start(-1, had=False))
            self._forget(place)
            self._owned[place] = owner
            self._begun_to.pop(place, None)
            if start.had:
                self._begun_to[place] = None
            if start.offset >= 0:
                each.offset = self._read_to[place] = start.offset
        if self._eager:
            consumer.assign(partitions)
        else:
            consumer.incremental_assign(partitions)
        quiet = [each for each in partitions if self._paused or _place(each) not in self._owned]
        if quiet:
            consumer.pause(quiet)

    def _starts(self, places: set[Place], owner: str) -> dict[Place, Start]:
        if self._positions is None or not places:
            return {}
        ids = self._ids.of(topic for topic, _ in places)
        starts = self._positions.take({place: ids[place[0]] for place in places}, owner)
        doubtful = {place: start for place, start in starts.items() if not start.sure}
        checked = {place: self._checked(place, start) for place, start in doubtful.items()}
        if checked:
            self._positions.confirm(
                {place: (each.offset, ids[place[0]]) for place, each in checked.items()}, owner
            )
        starts.update(checked)
        for place, start in starts.items():
            if start.anew:
                LOGGER.warning(
                    "The topic %s was made anew: partition %d is read from its beginning, and not from where its "
                    "namesake was left",
                    *place,
                )
        return starts

    def _checked(self, place: Place, start: Start) -> Start:
        """Of a position it is not known whether this is its topic: one beyond the end cannot be."""
        try:
            found = self._consumer.get_watermark_offsets(kafka.TopicPartition(*place), CONNECT_SECONDS)
        except kafka.KafkaException as exc:
            raise meaning(exc.args[0], place[0]) from exc
        if found is None:
            raise BrokerUnavailable(f"Kafka does not say where {place[0]} ends")
        return Start(0, had=start.had, anew=True) if start.offset > found[1] else start

    def _revoked(self, consumer: Any, partitions: Sequence[Any]) -> None:
        """Still a member: what is done so far may be told, before the others begin where we say."""
        if consumer is self._consumer:
            self._commit({_place(each) for each in partitions}, wait=True)
        self._give_up(consumer, partitions)

    def _lost(self, consumer: Any, partitions: Sequence[Any]) -> None:
        """Too late to say anything: others have begun already."""
        LOGGER.warning(
            "Partitions %s went to others, because this consumer was not heard of for too long",
            _shown(map(_place, partitions)),
        )
        self._give_up(consumer, partitions)

    def _give_up(self, consumer: Any, partitions: Sequence[Any]) -> None:
        if consumer is self._consumer:
            self._forget_all(consumer, partitions)
        if self._eager:
            consumer.unassign()
        else:
            consumer.incremental_unassign(partitions)

    def _forget_all(self, consumer: Any, partitions: Sequence[Any]) -> None:
        paused = [each for each in partitions if self._paused or _place(each) in self._stuck]
        if paused:
            consumer.resume(paused)  # not to be found paused, should they come back
        for each in partitions:
            self._forget(_place(each))

    def _forget(self, place: Place) -> None:
        """If it comes back, it is read anew from where the others got to."""
        self._owned.pop(place, None)
        self._ends.pop(place, None)
        self._arrived.pop(place, None)
        self._out.pop(place, None)
        self._read_to.pop(place, None)
        self._stuck.discard(place)

    def holds(self, delivery: Delivery) -> bool:
        receipt: wire.Receipt = delivery.receipt
        return self._owned.get(receipt.place) == receipt.owner

    def membership(self) -> Any:
        """What a transaction shows to the group, which refuses who has lost his partitions; None for no member at all, whom
        it would not refuse.
        """
        shown = self._consumer.consumer_group_metadata()
        return shown if self._consumer.memberid() else None

    # Reading and telling

    def poll(self, most: int, seconds: float) -> list[Delivery]:
        try:
            self._fetch(most, seconds)
        except kafka.KafkaException as exc:
            raise meaning(exc.args[0], str(self.topics)) from exc
        if self._fault is not None:
            raise meaning(self._fault, str(self.topics), self.connection)
        if self._untaken is not None:
            raise BrokerUnavailable(
                f"it is not known how far we are in {self.topics}, because Kafka or the database is down"
            ) from self._untaken
        if self._positions is not None and (topic := self._ids.changed(topic for topic, _ in self._owned)):
            raise BrokerUnavailable(f"the topic {topic} was made anew")
        taken = self._taken(most)
        if len(taken) < most:
            self._pause_stuck()
        return [
            wire.received(message, self._owned[_of(message)], redelivered=self._may_be_begun(message))
            for message in taken
        ]

    def _deliverable(self, place: Place) -> int:
        """How many of a partition may be handed over now."""
        return max(0, min(len(self._arrived[place]), self._in_work - len(self._out[place])))

    def _taken(self, most: int) -> list[Any]:
        """From each partition in turn, in its order."""
        taken: list[Any] = []
        for place in [*self._arrived]:
            some = min(most - len(taken), self._deliverable(place))
            if some == 0:
                continue
            waiting = self._arrived.pop(place)
            for _ in range(some):
                message = waiting.popleft()
                self._out[place].append(message.offset())
                taken.append(message)
            if waiting:
                self._arrived[place] = waiting  # as the last
        return taken

    def _pause_stuck(self) -> None:
        """There is room, yet of these no more may be handed over: one that is not done holds them up."""
        found = {place for place, waiting in self._arrived.items() if waiting} - self._stuck
        if found:
            LOGGER.info("Partitions %s are paused: a message has to succeed first", _shown(found))
            self._stuck |= found
            self._consumer.pause(_partitions(found))

    def _resume_unstuck(self) -> None:
        found = {place for place in self._stuck if 2 * len(self._out[place]) <= self._in_work}
        self._stuck -= found
        if found and not self._paused:
            self._consumer.resume(_partitions(found))

    def _may_be_begun(self, message: Any) -> bool:
        """Whether it is one of the first since the partition is ours, with which its former owner may have died."""
        place, offset = _of(message), message.offset()
        if place not in self._begun_to:
            return False
        end = self._begun_to[place]
        if end is None:
            end = self._begun_to[place] = offset + self._in_work
        return bool(offset < end)

    def _fetch(self, most: int, seconds: float) -> None:
        """Always asks the library, which counts us as alive by that. What nobody wants yet is kept, up to a limit."""
        self._resume_unstuck()
        wanted = most - sum(self._deliverable(place) for place in [*self._arrived])
        others = self._owned.keys() - self._stuck
        if self._paused and wanted > 0:
            self._consumer.resume(_partitions(others))
            self._paused = False
        elif (
            not self._paused
            and wanted <= 0
            and sum(len(self._arrived[each]) for each in others & self._arrived.keys()) >= _AHEAD
        ):
            self._consumer.pause(_partitions(others))
            self._paused = True
        for message in self._consumer.consume(max(1, wanted), seconds if wanted == most > 0 else 0):
            error = message.error()
            if error is None:
                self._arrive(message)
            elif error.code() == _END:
                if _of(message) in self._owned:
                    self._read_to[_of(message)] = message.offset()
            elif isinstance(meaning(error), BrokerUnavailable):
                LOGGER.warning("Kafka: %s", error.str())
            else:
                raise meaning(error, message.topic() or str(self.topics))

    def _arrive(self, message: Any) -> None:
        place = _of(message)
        if place not in self._owned:
            return
        if self._positions is not None and message.offset() < self._read_to.get(place, 0):
            self._look_back(place)
        self._read_to[place] = message.offset() + 1
        self._arrived[place].append(message)

    def _look_back(self, place: Place) -> None:
        """It begins before where we were. Taken anew, a topic that was made anew is read from its beginning; one that still is the
        same has lost its end, as when a replica that was behind became the leader. That one is read again, and the inbox knows
        what was done: to wait until it is as long as before would pass over what was written meanwhile.
        """
        if place not in self._shortened:
            self._shortened.add(place)
            raise BrokerUnavailable(f"the topic {place[0]} begins anew")
        LOGGER.warning(
            "Partition %d of %s has lost its end, and is read again from its beginning", place[1], place[0]
        )
        self._shortened.discard(place)

    def lag(self) -> int | None:
        """Messages that are not worked on yet, of the partitions that are ours; None while that is not known."""
        total = 0
        for place in self._owned:
            is_fetched = (
                not self._paused and place not in self._stuck
            )  # only then the library knows the end by itself
            try:
                found = self._consumer.get_watermark_offsets(
                    kafka.TopicPartition(*place), timeout=1.0, cached=is_fetched
                )
            except kafka.KafkaException:
                return None
            if found is None or found[1] < 0 or place not in self._read_to:
                return None
            in_hand = len(self._arrived.get(place, ())) + len(self._out.get(place, ()))
            total += max(0, found[1] - self._read_to[place]) + in_hand
        return total

    def acknowledge(self, decided: Sequence[Decided]) -> None:
        """In the order of each partition. What is to be tried again is simply not past yet."""
        for each, verdict in decided:
            if isinstance(verdict, Dead):
                self._bury(each, verdict.reason)
            if isinstance(verdict, Ack | Dead):
                self._ends[each.receipt.place] = each.receipt.offset + 1
            if not isinstance(verdict, Retry):
                self.pass_by(each)
        self._commit(set(self._ends), wait=False)

    def pass_by(self, each: Delivery) -> None:
        """It is no longer in work, and neither is what was before it."""
        out = self._out[each.receipt.place]
        while out and out[0] <= each.receipt.offset:
            out.popleft()

    def _bury(self, each: Delivery, reason: str) -> None:
        letter = wire.dead_letter(each, reason)
        self.dead_topic_for(each.message.topic)
        if self._producer is None:
            self._producer = producing(self.connection, TIMEOUT)
        [error] = send(self._producer, [(letter.topic, letter.record)], TIMEOUT)
        if error is not None:
            raise error

    def dead_topic_for(self, topic: str) -> None:
        if topic not in self._dead_topics:
            create_dead_topic(self.connection, topic)
            self._dead_topics.add(topic)

    def _commit(self, places: set[Place], *, wait: bool) -> None:
        """With positions in the database this is for those who watch the lag; without, it is what counts."""
        offsets = [
            kafka.TopicPartition(*place, self._ends.pop(place)) for place in places & self._ends.keys()
        ]
        if not offsets:
            return
        try:
            self._consumer.commit(offsets=offsets, asynchronous=not wait)
        except kafka.KafkaException as exc:
            LOGGER.warning(
                "Positions in %s were not committed, some messages come again: %s",
                self.topics,
                exc.args[0].str(),
            )

    def close(self) -> None:
        consumer, self._consumer = self._consumer, None
        for place in [*self._owned]:
            self._forget(place)
        self._paused = False
        self._producer = None
        self._dead_topics.clear()
        self._ids.close()
        if consumer is not None:
            # Beside us: the library waits for its brokers, and not always for a bounded time.
            closing = threading.Thread(
                target=_close, args=(consumer,), name="dupeproof-kafka-close", daemon=True
            )
            closing.start()
            closing.join(TIMEOUT / 2)
            if closing.is_alive():
                LOGGER.warning("A consumer of %s does not end, and is left behind", self.topics)


def _close(consumer: Any) -> None:
    try:
        consumer.close()
    except kafka.KafkaException as exc:
        LOGGER.warning("A consumer did not end as it should: %s", exc.args[0].str())


def _place(partition: Any) -> Place:
    return partition.topic, partition.partition


def _of(message: Any) -> Place:
    return message.topic(), message.partition()


def _partitions(places: Iterable[Place]) -> list[Any]:
    return [kafka.TopicPartition(*place) for place in sorted(places)]


def _shown(places: Iterable[Place]) -> str:
    return ", ".join(f"{topic}:{number}" for topic, number in sorted(places))
