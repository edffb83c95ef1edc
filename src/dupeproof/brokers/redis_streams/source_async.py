"""Messages out of a stream, through a consumer group.

An entry belongs to the consumer it was delivered to until it is acknowledged, or until nobody gave a sign of life for it
for `takeover`: then any other consumer of the group takes it. An entry that is to come again is made that much older than
it is, so that its time to be taken comes after the delay. To acknowledge late, after another has taken over, is
harmless: it is done only after the effect is committed, whoever committed it.
"""

import time
from collections.abc import Sequence
from importlib.resources import files
from typing import Any

from redis.crc import key_slot

from dupeproof.brokers.base import Ack, Dead, Decided, Delivery, Features, Retry, dead_name
from dupeproof.brokers.errors import NotDeadLettered
from dupeproof.brokers.redis_streams import wire
from dupeproof.brokers.redis_streams.connections_async import connected, disconnect
from dupeproof.brokers.redis_streams.driver import FULL, check_url, is_full, theirs, translated
from dupeproof.core.events import logger
from dupeproof.core.tokens import new_token

_KEEP, _BURY = (
    files("dupeproof.brokers.redis_streams").joinpath(name).read_text()
    for name in ("keep.lua", "dead_letter.lua")
)
_LOOKS = 10
"""How often in the time of a takeover one looks for entries to take; at least twice a second."""

_START = b"0-0"
"""Where the list of entries in work begins; also what Redis answers when it was looked through to its end."""


class AsyncRedisStreamSource:
    def __init__(self, url: str, stream: str, group: str, *, create: bool, takeover: float) -> None:
        self.features = Features(delays=True, keep_alive=takeover / 3)
        self.name = stream
        self.trimmed = 0
        """Entries that were removed from the stream before they were done."""
        self._url = check_url(url)
        self._is_cluster = "+cluster" in url.partition("://")[0]
        self._group = group
        self._create = create
        self._takeover = round(takeover * 1_000)
        self._me = new_token().hex()
        self._client: Any = None
        self._look_at = 0.0
        self._looked_to: Any = _START

    async def open(self, most: int) -> None:  # noqa: ARG002 - nothing is sent ahead
        with translated(self._url, self.name, opening=True):
            self._client = connected(self._url)
            self._keep = self._client.register_script(_KEEP)
            self._bury = self._client.register_script(_BURY)
            try:
                await self._client.xgroup_create(self.name, self._group, id="0", mkstream=self._create)
            except theirs.ResponseError as exc:
                # One that is full refuses to make a group also where there is one.
                if "BUSYGROUP" not in str(exc) and not (is_full(exc) and await self._has_group()):
                    raise

    async def _has_group(self) -> bool:
        try:
            groups = await self._client.xinfo_groups(self.name)
        except theirs.ResponseError:
            return False  # there is no such stream
        return any(each["name"] == self._group.encode() for each in groups)

    async def poll(self, most: int, seconds: float) -> list[Delivery]:
        if most == 0:
            return []
        with translated(self._url, self.name):
            taken = await self._taken(most) if time.monotonic() >= self._look_at else []
            if len(taken) == most:
                return taken
            wait = min(seconds, max(0.0, self._look_at - time.monotonic()))
            answer = await self._client.xreadgroup(
                self._group,
                self._me,
                {self.name: ">"},
                count=most - len(taken),
                block=max(1, round(wait * 1_000)) if wait > 0 and not taken else None,
            )
        entries = answer[0][1] if answer else []
        return taken + [wire.received(self.name, entry, fields, attempt=1) for entry, fields in entries]

    async def _taken(self, most: int) -> list[Delivery]:
        """What others left, and what was to come again. Redis looks at a part of the list at a time."""
        self._looked_to, entries, gone = await self._client.xautoclaim(
            self.name, self._group, self._me, self._takeover, self._looked_to, count=most
        )
        if gone:
            self.trimmed += len(gone)
            logger.error(
                "%d entries of %s were trimmed from the stream before they were done, and are lost; "
                "trim it less, or consume faster",
                len(gone),
                self.name,
            )
        if self._looked_to == _START:
            self._look_at = time.monotonic() + min(0.5, self._takeover / 1_000 / _LOOKS)
        if not entries:
            return []
        counts = {
            row["message_id"]: row["times_delivered"]
            for row in await self._client.xpending_range(
                self.name, self._group, entries[0][0], entries[-1][0], 100_000, self._me
            )
        }
        return [
            wire.received(self.name, entry, fields, attempt=counts.get(entry, 1)) for entry, fields in entries
        ]

    async def acknowledge(self, decided: Sequence[Decided]) -> None:
        again: list[Any] = []
        with translated(self._url, self.name):
            done = [each.receipt for each, verdict in decided if isinstance(verdict, Ack)]
            if done:
                await self._client.xack(self.name, self._group, *done)
            for each, verdict in decided:
                if isinstance(verdict, Retry):
                    delay = min(self._takeover, round(verdict.seconds * 1_000))
                    attempt = each.message.attempt - (not verdict.counted)
                    again += [each.receipt, self._takeover - delay, attempt]
            if again:
                await self._keep(keys=[self.name], args=[self._group, self._me, *again])
        for each, verdict in decided:
            if isinstance(verdict, Dead):
                await self._put_aside(each, verdict.reason)

    async def _put_aside(self, each: Delivery, reason: str) -> None:
        dead = dead_name(self.name)
        fields = [part for pair in wire.dead_letter(each, reason, self.name).items() for part in pair]
        with translated(self._url, dead):
            try:
                if key_slot(self.name.encode()) == key_slot(dead.encode()) or not self._is_cluster:
                    await self._bury(keys=[self.name, dead], args=[self._group, each.receipt, *fields])
                    return
                # On another node. A crash in between leaves the dead letter twice, and loses nothing.
                await self._client.execute_command("XADD", dead, "*", *fields)
            except theirs.ResponseError as exc:
                if not is_full(exc):
                    raise
                raise NotDeadLettered(FULL, reason="full") from exc
            await self._client.xack(self.name, self._group, each.receipt)

    async def keep(self, deliveries: Sequence[Delivery]) -> None:
        args = [part for each in deliveries for part in (each.receipt, 0, -1)]
        with translated(self._url, self.name):
            await self._keep(keys=[self.name], args=[self._group, self._me, *args])

    def holds(self, delivery: Delivery) -> bool:  # noqa: ARG002 - see above: late is harmless
        return self._client is not None

    async def record(self, connection: Any, deliveries: Sequence[Delivery]) -> None:
        """The broker itself knows."""

    async def lag(self) -> int | None:
        """Entries that no consumer of the group has had yet. Redis does not know after some were deleted, or before 7.0."""
        with translated(self._url, self.name):
            groups = await self._client.xinfo_groups(self.name)
        return next((each.get("lag") for each in groups if each["name"] == self._group.encode()), None)

    async def close(self) -> None:
        client, self._client = self._client, None
        if client is not None:
            await disconnect(client)
