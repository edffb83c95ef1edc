"""A producer of confluent-kafka that sends a batch and waits for what became of each message."""

import time
from collections.abc import Sequence
from typing import Any

from dupeproof.brokers.errors import BrokerUnavailable, NotPublished
from dupeproof.brokers.kafka.driver import (
    LOGGER,
    Config,
    complaining,
    fatal_as_such,
    kafka,
    made,
    meaning,
    of_its_batch,
    refusal,
)
from dupeproof.brokers.kafka.wire import Record
from dupeproof.brokers.waves import Result

_IN_A_REQUEST = 100_000_000
"""Bytes. A broker hangs up on a request of more than its socket.request.max.bytes, 100 MiB by default."""
_STEP = 0.25
_UNANSWERED = BrokerUnavailable("Kafka confirmed nothing in time; it is down or overloaded")


def producing(config: Config, seconds: float, logger: Any = LOGGER, **more: Any) -> Any:
    """Numbered by the producer, so that its own repetitions are removed by the broker, and written by all replicas."""
    ours = {
        "enable.idempotence": True,
        "acks": "all",
        "linger.ms": 2,
        "delivery.timeout.ms": round(seconds * 1_000),
        "error_cb": complaining(config),
        "message.max.bytes": _IN_A_REQUEST,  # what is too large otherwise, the topic knows
        # A topic nobody made is a mistake, to be reported soon; the library would make it, or wait for half a minute.
        "allow.auto.create.topics": False,
        "topic.metadata.propagation.max.ms": 3_000,
        **more,
    }
    return made(kafka.Producer, {**ours, **config}, logger)


def send(producer: Any, records: Sequence[tuple[str, Record]], seconds: float) -> list[Result]:
    """For each None, or what is wrong with it. Raises when the broker is.

    A broker takes a batch or refuses it, and the library makes them: what was refused beside others, as too large or without
    the key that a compacted topic wants, is sent again in halves, at last alone, before it is blamed.
    """
    answers = _answers(producer, records, seconds)
    doubtful = [place for place, answer in enumerate(answers) if of_its_batch(answer)]
    if len(records) > 1:
        middle = (len(doubtful) + 1) // 2
        for half in filter(None, (doubtful[:middle], doubtful[middle:])):
            again = send(producer, [records[place] for place in half], seconds)
            for place, result in zip(half, again, strict=True):
                answers[place] = result
    return [_result(answer, topic) for answer, (topic, _) in zip(answers, records, strict=True)]


def _answers(producer: Any, records: Sequence[tuple[str, Record]], seconds: float) -> list[Any]:
    answers: list[Any] = [_UNANSWERED] * len(records)

    def confirmed(place: int) -> Any:
        def answer(error: Any, _: Any) -> None:
            answers[place] = error

        return answer

    for place, (topic, record) in enumerate(records):
        try:
            produce(producer, topic, record, confirmed(place), seconds)
        except kafka.KafkaException as exc:
            answers[place] = exc.args[0]
    try:
        flush(producer, seconds + 1)
    except kafka.KafkaException as exc:
        raise meaning(exc.args[0]) from exc
    return answers


def produce(producer: Any, topic: str, record: Record, on_delivery: Any, seconds: float) -> None:
    """Hand it to the library, as soon as it has room."""
    while True:
        try:
            producer.produce(topic, on_delivery=on_delivery, **record)
        except BufferError:
            with fatal_as_such():
                producer.poll(min(1.0, seconds))  # until some of those before are on their way
        else:
            return


def flush(producer: Any, seconds: float) -> None:
    """Wait until all are confirmed or given up. In short steps: what the library reports meanwhile is raised after each."""
    give_up = time.monotonic() + seconds
    with fatal_as_such():
        while producer.flush(max(0.0, min(_STEP, give_up - time.monotonic()))) and time.monotonic() < give_up:
            continue


def _result(answer: Any, topic: str) -> Result:
    if answer is None or isinstance(answer, NotPublished):
        return answer
    if isinstance(answer, BrokerUnavailable):
        raise answer
    found = refusal(answer, topic)
    if found is None:
        raise meaning(answer, topic)
    return found
