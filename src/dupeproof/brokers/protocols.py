# Written by tools/twins.py from src/dupeproof/brokers/protocols_async.py; change that file instead.
"""The contract of a broker, for one who reads from it and one who writes to it."""

from collections.abc import Sequence
from typing import Any, Protocol

from dupeproof.brokers.base import Decided, Delivery, Features


class Source(Protocol):
    """Where messages come from. One caller uses it, never two at a time; only `holds` and `record` are asked by workers.

    Every verb raises `BrokerUnavailable` when the connection is lost; then it is closed and opened again.
    """

    @property
    def features(self) -> Features: ...

    @property
    def name(self) -> str:
        """The queue, for people."""
        ...

    def open(self, most: int) -> None:
        """Connect and subscribe. `most` is how many deliveries will be held at a time. `ConfigError` if it is useless to try again."""
        ...

    def poll(self, most: int, seconds: float) -> list[Delivery]:
        """What has come, at most so many, waiting at most so long for the first. Also keeps the connection alive."""
        ...

    def acknowledge(self, decided: Sequence[Decided]) -> None:
        """Acknowledge, or hand back. Each delivery is decided once, and only while it is held."""
        ...

    def keep(self, deliveries: Sequence[Delivery]) -> None:
        """A sign of life for what is being worked on."""
        ...

    def holds(self, delivery: Delivery) -> bool:
        """Whether it is still ours: not of a connection, or an assignment, that is over."""
        ...

    def record(self, connection: Any, deliveries: Sequence[Delivery]) -> None:
        """Write down in the transaction of the effect how far we are. `Fenced` if that is no longer for us to say."""
        ...

    def lag(self) -> int | None:
        """How many messages wait at the broker; None where it does not say."""
        ...

    def close(self) -> None:
        """Disconnect. What is not decided will be delivered again. Closing twice is fine."""
        ...
