"""The relay under torture: publishes what the producer has added, and can be stopped halfway through a batch."""

import uuid
from collections.abc import Sequence
from typing import Any

from msgspec.structs import replace

from dupeproof.brokers.errors import BrokerUnavailable
from dupeproof.outbox import HeldBack, Relay
from dupeproof.outbox.messages import Message
from dupeproof_lab.torture.faults import COPY, UNNAMED, Point
from dupeproof_lab.torture.link import Link
from dupeproof_lab.torture.probe import Probe

LEASE = "3s"
_POLL = "50ms"
_BATCH = 100


class ProbedPublisher:
    """Says how many it publishes, and when the broker is away. Each batch goes in two halves, with a point between."""

    def __init__(self, publisher: Any, link: Link, probe: Probe) -> None:
        self._publisher, self._link, self._probe = publisher, link, probe

    def publish(self, messages: Sequence[Message]) -> list[BaseException | None]:
        half = len(messages) // 2
        results = self._part(messages[:half])
        if any(result is not None for result in results):
            return [*results, *(HeldBack() for _ in messages[half:])]
        if results:
            self._probe.at(Point.HALF_PUBLISHED)
        return [*results, *self._part(messages[half:])]

    def _part(self, messages: Sequence[Message]) -> list[BaseException | None]:
        if not messages:
            return []
        try:
            results: list[BaseException | None] = self._publisher.publish(
                [_stamped(each) for each in messages]
            )
        except BrokerUnavailable as exc:
            self._link.say({"down": str(exc)})
            raise
        self._link.say({"published": sum(result is None for result in results)})
        return results


def _stamped(message: Message) -> Message:
    if not (message.key or "").startswith(UNNAMED):
        return message
    return replace(message, headers={**message.headers, COPY: uuid.uuid4().hex})


def relay(database: str, publisher: Any, link: Link, probe: Probe) -> Relay:
    return Relay(
        database,
        publisher=ProbedPublisher(publisher, link, probe),
        batch=_BATCH,
        lease=LEASE,
        poll=_POLL,
        max_attempts=None,
        backoff="100ms",
        max_backoff="1s",
    )
