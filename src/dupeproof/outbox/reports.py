"""What a relay reports to its source, and the status of a source."""

from msgspec import Struct

from dupeproof.outbox.messages import Message, Place


class Failure(Struct, frozen=True):
    message: Message
    error: str
    delay: int
    """Milliseconds until it may be tried again."""
    dead: bool
    counted: bool = True
    """Whether this was an attempt: not when the way was closed, nor when it was not even tried."""

    @property
    def attempts(self) -> int:
        """How many there were by now."""
        return self.message.attempt if self.counted else self.message.attempt - 1


class Delivered(Struct, frozen=True):
    """What became of a batch. What is neither sent nor failed was not tried, and is there for the next one."""

    token: bytes
    sent: list[Place]
    failed: list[Failure]
    keep: int
    key_waits: bool
    shards: list[int] = []
    """All those that were taken, also for messages that were not tried."""


class OutboxStatus(Struct, frozen=True):
    backlog: int
    """Messages that could be sent now, were it not for lack of time or a failure."""
    delayed: int
    """Those whose time has not come."""
    oldest: float | None
    """Seconds that the oldest of the backlog has waited."""
    failing: int
    """Messages that failed and will be tried again, while their keys wait; and those a relay may have died of."""
    dead: int
    kept: int
    """Sent ones that are kept for a time."""
    relays: int
    """At work this moment; idle ones hold nothing."""
    sent: int
    """Since the outbox was made; duplicates count too."""
    taken_over: int
    """How often a relay went away with messages in its hands. They were sent by another, some of them again."""
    relay_seen: float | None = None
    """Seconds since a relay last had messages in its hands, 0 while one has; None where none ever had. Idle ones leave no trace."""


class DeadMessage(Struct, frozen=True):
    id: str
    topic: str
    key: str | None
    type: str
    attempts: int
    error: str
    since: float
    """Seconds."""
