"""What all publishers share: many at a time, in order per key, each confirmed or with its own error."""

import time
from abc import ABC, abstractmethod
from collections.abc import Sequence
from types import TracebackType
from typing import Self

from dupeproof.brokers.errors import HungUp, NotPublished
from dupeproof.brokers.waves import Result, Unanswered, Waves
from dupeproof.errors import DupeproofError
from dupeproof.outbox.messages import Message

_PARTS = 8
"""Into so many a batch is split. A message beside the culprit is sent once more for each step: 500, 63, 8, 1."""
_WELL = 60.0
"""Seconds: only a broker that has confirmed something that long ago can speak against a message."""
_MOST_CULPRITS = 5
"""That are looked for in one call, since each takes some connections. The rest is held back for the next."""


class AsyncBrokerPublisher(ABC):
    """Satisfies the outbox's `AsyncPublisher`. A broker's own says how to connect, to send a wave, and to close."""

    can_be_left = True
    """A relay that has to end does not wait for a broker that does not answer."""
    _is_open = False
    _culprits = 0
    _confirmed_at: float | None = None
    """When the broker has last confirmed a message."""

    @abstractmethod
    async def _open(self) -> None:
        """Connect; raises `BrokerUnavailable`, or `ConfigError` if it is useless to try again."""

    @abstractmethod
    async def _send(self, messages: Sequence[Message]) -> Sequence[Result]:
        """Send all, wait for the confirmations; for each None, its error, or `Unanswered`.

        `Unanswered` by `NotPublished`, or by `HungUp`: one of them made the broker close the connection, or may have. By
        anything else: the broker is to blame. Raises `BrokerUnavailable` when nothing is known of any.
        """

    def _unfit(self, _: Message, /) -> NotPublished | None:
        """What the broker's own rules, and the limits it sent when we connected, say against a message."""
        return None

    @abstractmethod
    async def _close(self) -> None:
        """Disconnect, also when the connection is broken already, or was never whole."""

    async def publish(self, messages: Sequence[Message]) -> list[Result]:
        """For each message None when the broker has it for sure, or why not. `BrokerUnavailable` when it is down.

        Messages with one key follow each other: after one that failed, the others answer `HeldBack`. So do those that
        were not confirmed, when the broker went down after others were.
        """
        waves = Waves(messages)
        self._culprits = 0
        try:
            for wave in waves:
                await self._connected()
                fit = []
                for message in wave:
                    fault = self._unfit(message)
                    if fault is None:
                        fit.append(message)
                    else:
                        waves.answer(message, fault)
                # What has failed before goes apart, so that it can take no others with it a second time.
                await self._deliver([message for message in fit if message.attempt == 1], waves)
                await self._deliver([message for message in fit if message.attempt > 1], waves)
        except DupeproofError:
            await self.close()
            if not waves.is_begun:
                raise
        return waves.results

    async def _deliver(self, messages: Sequence[Message], waves: Waves, *, is_second: bool = False) -> None:
        """Where the connection is lost, those that were not confirmed are sent again in parts, until the one that costs us the
        connection is alone. It is to blame if that happens twice, and the broker is there before, in between and after, and has
        taken other messages meanwhile or a short time ago.
        """
        if not messages:
            return
        await self._connected()
        lost, cause = [], None
        for message, result in zip(messages, await self._send(messages), strict=True):
            if isinstance(result, Unanswered):
                lost.append(message)
                cause = result.cause
            else:
                waves.answer(message, result)
                if result is None:
                    self._confirmed_at = time.monotonic()
        if cause is None:
            return
        await self.close()
        if not isinstance(cause, HungUp | NotPublished):
            raise cause
        if len(messages) > 1:
            size = -(-len(lost) // _PARTS)
            for start in range(0, len(lost), size):
                await self._deliver(lost[start : start + size], waves)
        elif isinstance(cause, NotPublished):
            waves.answer(messages[0], cause)
        elif not is_second:
            await self._deliver(messages, waves, is_second=True)
        else:
            if self._confirmed_at is None or time.monotonic() - self._confirmed_at > _WELL:
                raise cause  # it may be the broker, which takes nothing at all
            await self._connected()
            text = f"the broker closes the connection whenever it gets this message, also alone: {cause}"
            waves.answer(messages[0], NotPublished(text, reason="hung-up"))
            self._culprits += 1
            if self._culprits >= _MOST_CULPRITS:
                raise cause

    async def _connected(self) -> None:
        if self._is_open:
            return
        try:
            await self._open()
        except BaseException:
            await self._close()
            raise
        self._is_open = True

    async def close(self) -> None:
        """Disconnect; the next `publish` connects again. Closing twice is fine."""
        if self._is_open:
            self._is_open = False
            await self._close()

    async def __aenter__(self) -> Self:
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, exc: BaseException | None, traceback: TracebackType | None
    ) -> None:
        await self.close()
