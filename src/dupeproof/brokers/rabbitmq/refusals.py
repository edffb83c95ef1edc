"""Copies that a queue has no room for: each is sent again later, while its original is held and others go on."""

import time
from typing import Any

from msgspec import Struct

from dupeproof.brokers.rabbitmq.wire import Sent
from dupeproof.core.events import logger

_TEXT = (
    "RabbitMQ refused a message for %r: the queue is full and rejects more (x-overflow), or the broker failed. Its original is "
    "held, and it is sent again in %g s; the other messages are worked on"
)
_SOONEST, _LATEST = 0.5, 30.0
"""Seconds until it is sent again: doubled each time."""


class Copy(Struct):
    """A message on its way to another queue, and what is to be acknowledged when it is there."""

    queue: str
    sent: Sent
    original: Any
    refusals: int = 0
    not_before: float = 0.0


class Refusals:
    def __init__(self) -> None:
        self._copies: list[Copy] = []

    def __len__(self) -> int:
        return len(self._copies)

    def add(self, copy: Copy) -> None:
        wait = min(_LATEST, _SOONEST * 2 ** min(copy.refusals, 10))
        copy.refusals += 1
        copy.not_before = time.monotonic() + wait
        self._copies.append(copy)
        logger.warning(_TEXT, copy.queue, wait)

    def take_due(self) -> list[Copy]:
        now = time.monotonic()
        found = [copy for copy in self._copies if copy.not_before <= now]
        if found:
            self._copies = [copy for copy in self._copies if copy.not_before > now]
        return found

    def clear(self) -> None:
        self._copies.clear()
