# Written by tools/twins.py from src/dupeproof/brokers/memory/publisher_async.py; change that file instead.
"""Messages into the queues of this process."""

from collections.abc import Sequence

from dupeproof.brokers.errors import Full, NotPublished
from dupeproof.brokers.memory.broker import Entry, broker_of
from dupeproof.brokers.publisher import BrokerPublisher
from dupeproof.brokers.waves import Result
from dupeproof.errors import ConfigError
from dupeproof.outbox.messages import Message


class MemoryPublisher(BrokerPublisher):
    """Puts messages into the queue of their topic, in the broker of a URL such as `memory://shop`."""

    def __init__(self, url: str) -> None:
        self._broker = broker_of(url)

    def _open(self) -> None:
        """It is here."""

    def _send(self, messages: Sequence[Message]) -> Sequence[Result]:
        return [self._put(message) for message in messages]

    def _put(self, message: Message) -> Result:
        entry = Entry(message.id, message.payload, message.headers, message.key, message.topic, message.type)
        try:
            if self._broker.put(message.topic, entry):
                return None
            return Full(f"the queue {message.topic!r} is full")
        except ConfigError as exc:
            return NotPublished(str(exc), reason="unroutable")

    def _close(self) -> None:
        """It stays."""
