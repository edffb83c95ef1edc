# Written by tools/twins.py from src/dupeproof/brokers/_async/publishing.py; change that file instead.
"""What all publishers share: many at a time, in order per key, each confirmed or with its own error."""

from abc import ABC, abstractmethod
from collections.abc import Sequence
from types import TracebackType
from typing import Self

from dupeproof.brokers.errors import BrokerUnavailable
from dupeproof.brokers.waves import Result, Waves
from dupeproof.outbox.messages import Message


class BrokerPublisher(ABC):
    """Satisfies the outbox's `Publisher`. A broker's own says how to connect, to send a wave, and to close."""

    _is_open = False

    @abstractmethod
    def _open(self) -> None:
        """Connect; raises `BrokerUnavailable`, or `ConfigError` if it is useless to try again."""

    @abstractmethod
    def _send(self, messages: Sequence[Message]) -> Sequence[Result]:
        """Send all, wait for the confirmations; for each None or its error. Raises `BrokerUnavailable`."""

    @abstractmethod
    def _close(self) -> None:
        """Disconnect, also when the connection is broken already, or was never whole."""

    def publish(self, messages: Sequence[Message]) -> list[Result]:
        """For each message None when the broker has it for sure, or why not. `BrokerUnavailable` when it is down.

        Messages with one key follow each other: after one that failed, the others answer `HeldBack`.
        """
        if not self._is_open:
            try:
                self._open()
            except BaseException:
                self._close()
                raise
            self._is_open = True
        waves = Waves(messages)
        try:
            for wave in waves:
                waves.answer(self._send(wave))
        except BrokerUnavailable:
            self.close()
            raise
        return waves.results

    def close(self) -> None:
        """Disconnect; the next `publish` connects again. Closing twice is fine."""
        if self._is_open:
            self._is_open = False
            self._close()

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, exc: BaseException | None, traceback: TracebackType | None
    ) -> None:
        self.close()
