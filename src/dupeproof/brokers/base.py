"""What all brokers have in common: messages, what becomes of them, and what a broker can and cannot do."""

from collections.abc import Callable
from datetime import datetime
from typing import Any

import msgspec
from msgspec import Struct

from dupeproof.errors import KeyInvalid


class Message(Struct, frozen=True, kw_only=True):
    """What a handler is given."""

    id: str | None
    """The same at every delivery; None only where `missing_id="pass"` lets such messages through."""
    body: bytes
    headers: dict[str, str]
    topic: str
    """Where it was published to: a routing key, topic, stream or subject."""
    key: str | None = None
    """Messages with the same key come one after the other, in the order they were delivered."""
    type: str = ""
    """What kind of event it tells of, as its sender said: `outbox.add(type=…)`."""
    content_type: str | None = None
    correlation_id: str | None = None
    timestamp: datetime | None = None
    """When it was sent, in UTC: by the broker's clock where it has one, else as its sender said."""
    partition: int | None = None
    """Of Kafka."""
    position: int | str | None = None
    """Where it lies: an offset of Kafka, a sequence number of JetStream, an entry id of Redis. None where there is no such thing."""
    attempt: int = 1
    redelivered: bool = False
    """The broker's hint that this may not be the first time. Then it is worked on alone, and with an inbox counted."""
    raw: Any = None
    """The message as the driver gave it, with all that is not said here."""

    def json(self) -> Any:
        """The body read as JSON. A handler that lets this fail has the message dead-lettered at once."""
        return msgspec.json.decode(self.body)


class Delivery(Struct, eq=False):
    """A message in our hands, until it is decided."""

    message: Message
    receipt: Any
    """What its broker wants to see again."""
    partition_key: str | None = None
    """What has the same partition key is worked on one after the other."""
    fault: KeyInvalid | None = None
    """Why the id that it has cannot be one."""
    dead_lettered: bool = False
    """It is dead-lettered; only the database has yet to know that we are past it."""
    begun: bool = False
    """That it is worked on is written down."""
    refusals: int = 0
    """How often the broker has not taken its dead letter."""
    source: Any = None
    """Of several, the one it came from."""

    @property
    def came_before(self) -> bool:
        """Whether it may have ended a consumer."""
        return self.message.redelivered or self.message.attempt > 1

    @property
    def sender_id(self) -> str | None:
        """The id to send it on with, if what it has can be one."""
        return None if self.fault is not None else self.message.id


class Ack(Struct, frozen=True):
    """Its effect is committed, by us now or by someone before."""

    duplicate: bool = False
    late: bool = False
    """A duplicate that came after its window, and was worked on as a new one."""
    stale: bool = False
    """Its entity has got a newer one, so nothing was done for it."""


class Retry(Struct, frozen=True):
    """Bring it again, not before so many seconds. Counts as an attempt unless nobody is to blame."""

    seconds: float
    counted: bool = True


class Dead(Struct, frozen=True):
    """Put it aside, with the reason, where someone can look at it."""

    reason: str


class Lost(Struct, frozen=True):
    """It went to another consumer, and nothing was done here. Nothing is told to the broker."""


Verdict = Ack | Retry | Dead | Lost
Decided = tuple[Delivery, Verdict]
RELEASE = Retry(0.0, counted=False)
"""Not begun: somebody else may have it at once."""


class Features(Struct, frozen=True, kw_only=True):
    """What a broker can do; the runner does the rest."""

    delays: bool
    """It brings a message again after a delay, and others go on. Where not, the message stays with us and its worker queue waits."""
    keep_alive: float | None = None
    """Seconds after which it wants a sign of life for each delivery; None where the connection is one."""
    position: bool = False
    """Where we are is not known to the broker but kept in the database, in the transaction of the effect."""


REASON, ATTEMPTS, ORIGIN = "dupeproof-reason", "dupeproof-attempts", "dupeproof-queue"
"""Headers of a message that was dead-lettered."""
TOPIC = "dupeproof-topic"
"""The same, for where it was published to, where that is not where it was read from."""
UNUSABLE_ID = "dupeproof-unusable-id"
"""The same, for an id that cannot be one: under its own name it would keep the dead letter from being read."""
_LONGEST_REASON = 1_000


def dead_name(queue: str) -> str:
    """Where a queue's messages are dead-lettered."""
    return f"{queue}.dead"


def dead_headers(delivery: Delivery, reason: str, queue: str) -> dict[str, str]:
    """Why it is here."""
    return {REASON: reason[:_LONGEST_REASON], ATTEMPTS: str(delivery.message.attempt), ORIGIN: queue}


class Reject(Exception):
    """Raised by a handler: no further try would help, put the message aside. The text is kept with it."""


UNGUARDED = object()
"""In place of a guard: every delivery is handed over, also the second of a message. For handlers that know by themselves."""
Handler = Callable[..., Any]
"""`handler(message, connection)` with an inbox, `handler(message)` with a guard; a coroutine function or a plain one.

What it asks for by its annotations is in `handlers`.
"""
Middleware = Callable[..., Any]
"""`middleware(message, call_next)`, which returns `call_next(message)`."""
