# Written by tools/twins.py from src/dupeproof/brokers/_async/publishing.py; change that file instead.
"""What all publishers share: many at a time, in order per key, each confirmed or with its own error."""

from abc import ABC, abstractmethod
from collections.abc import Sequence
from types import TracebackType
from typing import Self

from dupeproof.brokers.errors import NotPublished
from dupeproof.brokers.waves import Result, Waves
from dupeproof.errors import DupeproofError
from dupeproof.outbox.messages import Message


class BrokerPublisher(ABC):
    """Satisfies the outbox's `Publisher`. A broker's own says how to connect, to send a wave, and to close."""

    _is_open = False

    @abstractmethod
    def _open(self) -> None:
        """Connect; raises `BrokerUnavailable`, or `ConfigError` if it is useless to try again."""

    @abstractmethod
    def _send(self, messages: Sequence[Message]) -> Sequence[Result]:
        """Send all, wait for the confirmations; for each None or its error.

        Raises `BrokerUnavailable`; or `NotPublished` when one of them, it cannot tell which, made the broker hang up.
        """

    def _unfit(self, _: Message, /) -> NotPublished | None:
        """What the broker's own rules say against a message, found without asking it."""
        return None

    @abstractmethod
    def _close(self) -> None:
        """Disconnect, also when the connection is broken already, or was never whole."""

    def publish(self, messages: Sequence[Message]) -> list[Result]:
        """For each message None when the broker has it for sure, or why not. `BrokerUnavailable` when it is down.

        Messages with one key follow each other: after one that failed, the others answer `HeldBack`.
        """
        waves = Waves(messages)
        try:
            for wave in waves:
                faults = [self._unfit(message) for message in wave]
                fit = [message for message, fault in zip(wave, faults, strict=True) if fault is None]
                answers = iter(self._answers(fit))
                waves.answer([next(answers) if fault is None else fault for fault in faults])
        except DupeproofError:
            self.close()
            raise
        return waves.results

    def _answers(self, messages: Sequence[Message]) -> Sequence[Result]:
        """Where one of them costs us the connection, they are sent one by one: only that one is to be refused for it."""
        if not messages:
            return []
        self._connected()
        try:
            return self._send(messages)
        except NotPublished as exc:
            self.close()
            if len(messages) == 1:
                return [exc]
        return [answer for message in messages for answer in self._answers([message])]

    def _connected(self) -> None:
        if self._is_open:
            return
        try:
            self._open()
        except BaseException:
            self._close()
            raise
        self._is_open = True

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
