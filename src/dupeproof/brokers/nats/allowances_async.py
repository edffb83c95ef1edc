# No twin: nats-py is for tasks only.
"""Deliveries for which nobody is to blame, known to all consumers of a group.

The server counts every delivery, also of a message that was handed back untried, and tells nobody why it came again. What
is to be taken off is kept beside the stream, in a bucket that is made when the first message is handed back.
"""

import asyncio
from collections.abc import Iterable, Sequence
from typing import Any

from dupeproof.brokers.errors import Full
from dupeproof.brokers.nats.driver_async import refusal, streams
from dupeproof.core.events import logger

_KEPT = 7 * 86_400.0
"""Seconds that an allowance outlives the last time its message was handed back."""


class Allowances:
    """By the number of a message in its stream; only what was delivered before can have one."""

    def __init__(self, jetstream: Any, durable: str) -> None:
        self._jetstream = jetstream
        self._name = f"{durable}-uncounted"
        self._bucket: Any = None

    async def find(self, numbers: Sequence[int]) -> dict[int, int]:
        if not numbers or not await self._found():
            return {}
        return dict(zip(numbers, await asyncio.gather(*map(self._one, numbers)), strict=True))

    async def write(self, allowances: Iterable[tuple[int, int]]) -> None:
        """Before the messages are handed back: a crash in between costs one attempt too many, not one too few.

        A server that has no room for it costs them an attempt.
        """
        try:
            if not await self._found():
                self._bucket = await self._jetstream.create_key_value(bucket=self._name, ttl=_KEPT)
            await asyncio.gather(
                *(self._bucket.put(str(number), b"%d" % count) for number, count in allowances)
            )
        except streams.APIError as exc:
            refused = refusal(exc, self._name)
            if not isinstance(refused, Full):
                raise
            logger.warning("Messages that are handed back untried are counted as tried: %s", refused)

    async def _found(self) -> bool:
        """Another consumer may have made it meanwhile."""
        if self._bucket is None:
            try:
                self._bucket = await self._jetstream.key_value(self._name)
            except streams.BucketNotFoundError:
                return False
        return True

    async def _one(self, number: int) -> int:
        try:
            return int((await self._bucket.get(str(number))).value)
        except streams.KeyNotFoundError:
            return 0
