"""The two ways to have a Bloom filter in Redis: the module's, or a string of our own. One round trip for a batch."""

from collections.abc import Sequence
from typing import Any, Protocol

from dupeproof.errors import ConfigError, StoreUnavailable
from dupeproof.filters import redis_bloom_layout
from dupeproof.filters.redis_bloom_layout import Held, Names, Settings
from dupeproof.stores.redis.client_async import AsyncClient
from dupeproof.stores.redis.resp import pack


class AsyncBits(Protocol):
    async def add(self, digests: Sequence[bytes]) -> tuple[list[bool], int]:
        """Which were surely not there before, and how many there are now."""
        ...

    async def look(self, digests: Sequence[bytes]) -> list[bool]:
        """Which are surely not there."""
        ...

    async def held(self) -> Held: ...


async def open_bits(client: AsyncClient, settings: Settings) -> AsyncBits:
    """The filter as it is there, or else as this server can have it."""
    names = settings.names
    # In this order: who makes a filter of the module writes first what it is made for.
    commands = [pack(b"EXISTS", names.module), pack(b"GET", names.made_for), pack(b"EXISTS", names.bits)]
    is_there, made_for, in_string = await client.send(commands, [names.tag] * 3)
    if made_for is not None:
        redis_bloom_layout.check_made_for(settings.name, settings.made_for, made_for)
        return AsyncModuleBits(client, settings)
    if is_there:
        raise ConfigError(
            f"there is a filter {settings.name!r} whose error rate is not known, because what it was made for is "
            "gone; call clear() or take another name"
        )
    if not in_string and await _has_module(client, names):
        return AsyncModuleBits(client, settings)
    redis_bloom_layout.check_fits(settings.shape)
    return AsyncPlainBits(client, settings)


async def _has_module(client: AsyncClient, names: Names) -> bool:
    try:
        await client.send([pack(b"BF.EXISTS", names.module, b"-")], [names.tag])
    except StoreUnavailable as exc:
        if "unknown command" not in str(exc.__cause__):
            raise
        return False
    return True


class AsyncPlainBits:
    """A string of bits and a script. The script compares what it was made for with every call."""

    def __init__(self, client: AsyncClient, settings: Settings) -> None:
        self._client = client
        self._settings = settings

    async def add(self, digests: Sequence[bytes]) -> tuple[list[bool], int]:
        return await self._run(b"add", digests)

    async def look(self, digests: Sequence[bytes]) -> list[bool]:
        absent, _ = await self._run(b"look", digests)
        return absent

    async def held(self) -> Held:
        names, shape = self._settings.names, self._settings.shape
        _, added = await self._run(b"look", [])
        [taken] = await self._client.send([pack(b"BITCOUNT", names.bits, b"24", b"-1")], [names.tag])
        return Held(added, redis_bloom_layout.size(shape), shape.error_rate(taken / shape.bits))

    async def _run(self, verb: bytes, digests: Sequence[bytes]) -> tuple[list[bool], int]:
        settings, running = self._settings, redis_bloom_layout.bloom_script()
        part = (
            [settings.names.bits],
            [
                verb,
                settings.made_for,
                b"%d" % settings.shape.bits,
                b"%d" % settings.shape.places,
                b"".join([digest[:8] for digest in digests]),
            ],
        )
        [answer] = await self._client.send(
            [running.call(*part)],
            [settings.names.tag],
            repeat=verb == b"look",
            in_full=lambda _: running.in_full(*part),
        )
        if len(answer) == 1:
            redis_bloom_layout.check_made_for(settings.name, settings.made_for, answer[0])
        letters, added = answer
        return [letter == 49 for letter in letters], added


class AsyncModuleBits:
    """The filter of the module. It grows when it is full, so its rate stays and its memory does not."""

    def __init__(self, client: AsyncClient, settings: Settings) -> None:
        self._client = client
        self._settings = settings

    async def add(self, digests: Sequence[bytes]) -> tuple[list[bool], int]:
        settings, names = self._settings, self._settings.names
        commands = [
            # Each time, since a server that was flushed would make a filter without it.
            pack(b"SET", names.made_for, settings.made_for, b"NX", b"GET"),
            pack(
                b"BF.INSERT", names.module, b"CAPACITY", b"%d" % settings.capacity,
                b"ERROR", repr(settings.error_rate).encode(), b"ITEMS", *digests,
            ),
            pack(b"BF.INFO", names.module),
        ]  # fmt: skip
        before, answers, info = await self._client.send(commands, [names.tag] * 3, repeat=False)
        if before is not None:
            redis_bloom_layout.check_made_for(settings.name, settings.made_for, before)
        return [answer == 1 for answer in answers], self._checked(info).added

    async def look(self, digests: Sequence[bytes]) -> list[bool]:
        names = self._settings.names
        [answers] = await self._client.send([pack(b"BF.MEXISTS", names.module, *digests)], [names.tag])
        return [answer == 0 for answer in answers]

    async def held(self) -> Held:
        names = self._settings.names
        [is_there] = await self._client.send([pack(b"EXISTS", names.module)], [names.tag])
        if not is_there:
            return Held(0, 0, 0.0)
        [info] = await self._client.send([pack(b"BF.INFO", names.module)], [names.tag])
        return self._checked(info)

    def _checked(self, info: Sequence[Any] | dict[bytes, Any]) -> Held:
        # A client of the caller's may speak the newer protocol, which has maps.
        facts = info if isinstance(info, dict) else dict(zip(info[::2], info[1::2], strict=True))
        settings, filters = self._settings, facts[b"Number of filters"]
        if filters == 1 and facts[b"Capacity"] != settings.capacity:
            raise ConfigError(
                f"the filter {settings.name!r} was made for {facts[b'Capacity']} ids, not for {settings.capacity}; "
                "give the same capacity, or another name"
            )
        added = facts[b"Number of items inserted"]
        rate = settings.shape.error_rate(settings.shape.share_taken(min(added, settings.capacity)))
        return Held(added, facts[b"Size"], rate, filters)
