"""The store over Redis: one atomic step per verb and key, the server's clock, many ids per round trip."""

from collections import Counter
from collections.abc import AsyncIterator, Callable, Sequence
from functools import partial
from typing import Any, TypeVar

from msgspec.structs import replace

from dupeproof.core.outcomes import Outcome
from dupeproof.core.records import (
    ClaimRequest,
    Fail,
    Finish,
    Found,
    FoundMark,
    Health,
    Listed,
    Mark,
    Release,
    Renew,
    Sample,
    Stats,
)
from dupeproof.core.sequences import Number, SequenceStats, Verdict
from dupeproof.errors import StoreUnavailable
from dupeproof.stores.redis import layout
from dupeproof.stores.redis.client_async import ANYWHERE, AsyncClient
from dupeproof.stores.redis.copies_async import AsyncRedisCopies
from dupeproof.stores.redis.faults import translated
from dupeproof.stores.redis.lua import Script, script
from dupeproof.stores.redis.resp import Timed, pack
from dupeproof.stores.redis.targets import Target
from dupeproof.stores.redis.topology_async import AsyncTopology
from dupeproof.stores.repeats_async import AsyncRepeats

T = TypeVar("T")
_SCAN = b"1000"
_INDEX_PAGE = 500


class AsyncRedisStore:
    """Records and marks as plain string keys with a time to live; the server removes them by itself."""

    def __init__(self, target: Target, places: Callable[[], AsyncTopology] | None = None) -> None:
        self._client = AsyncClient(target, places)
        self._repeats = AsyncRepeats()
        self._is_cluster = target.kind == "cluster"

    @property
    def client(self) -> AsyncClient:
        """For what is kept on the same server beside records and marks."""
        return self._client

    async def claim(self, requests: Sequence[ClaimRequest]) -> list[Outcome]:
        # In time or not at all: one that is granted when its caller has given up would be nobody's.
        until = self._client.until()
        on_repeat = partial(self._repeats.note, requests, until)
        if len(requests) == 1 and not requests[0].terms.hold and not requests[0].kept_key:  # nearly every one
            quick = layout.QuickClaim(requests[0])
            answer, now = await self._client.ask(
                Timed(until, quick.pack, replies=2),
                layout.tag(requests[0].key),
                deadline=until,
                on_repeat=on_repeat,
            )
            decided = None if isinstance(answer, Exception) else quick.outcome(answer, now)
            if decided is not None:
                return [decided]
        answers = await self._call(
            "claim", requests, layout.claim_args, timed=True, deadline=until, on_repeat=on_repeat
        )
        return [layout.outcome(answer) for answer in answers]

    async def finish(self, changes: Sequence[Finish]) -> list[bool]:
        self._repeats.forget(changes)
        if len(changes) == 1 and not changes[0].resolver:  # nearly every one
            change = changes[0]
            command = layout.finish_command(script("finish").call, change)
            whole = partial(layout.finish_command, script("finish").in_full, change)
            answers = await self._client.ask(command, layout.tag(change.key), in_full=whole)
            return [answers[0] == 1]
        resolving = [change for change in changes if change.resolver]
        closed = iter(
            await self._call(
                "finish", [change for change in changes if not change.resolver], layout.finish_args
            )
        )
        resolved = iter(await self._call("resolve", resolving, layout.resolve_args, repeat=False))
        return [next(resolved if change.resolver else closed) == 1 for change in changes]

    async def fail(self, changes: Sequence[Fail]) -> list[bool]:
        await self._repeats.outlive(changes)
        return [answer == 1 for answer in await self._call("finish", changes, layout.fail_args)]

    async def release(self, changes: Sequence[Release]) -> list[bool]:
        await self._repeats.outlive(changes)
        # Not repeated after a lost reply: the second try would find that nothing is there to be released.
        answers = await self._call("release", changes, layout.release_args, repeat=False)
        return [answer == 1 for answer in answers]

    async def renew(self, changes: Sequence[Renew]) -> list[bool]:
        return [answer == 1 for answer in await self._call("renew", changes, layout.renew_args)]

    async def get(self, keys: Sequence[bytes]) -> list[Found | None]:
        return [layout.found(answer) for answer in await self._read(keys, layout.record_key)]

    async def marks(self, keys: Sequence[bytes]) -> list[FoundMark | None]:
        return [layout.found_mark(answer) for answer in await self._read(keys, layout.mark_key)]

    async def waiting(self, limit: int) -> list[Listed]:
        """One index for each hash tag, so this costs a call for each, whatever the size of the store."""
        found: list[Listed] = []
        first = dict.fromkeys(layout.TAGS, 0)
        reading = script("waiting")
        while first and len(found) < limit:
            tags = list(first)
            parts = [([layout.INDEX % tag], [b"%d" % first[tag], b"%d" % _INDEX_PAGE]) for tag in tags]
            pages = await self._client.send(
                [reading.call(*part) for part in parts], tags, in_full=partial(_in_full, reading, parts)
            )
            found += [
                Listed(digest, each.record, each.now)
                for page in pages
                for digest, each in layout.listed(page)
            ]
            # What was gone has been removed, so what is behind it has moved up.
            next_ones = {
                tag: first[tag] + _INDEX_PAGE - gone for tag, (_, _, _, gone) in zip(tags, pages, strict=True)
            }
            sizes = {tag: size for tag, (_, size, _, _) in zip(tags, pages, strict=True)}
            first = {tag: place for tag, place in next_ones.items() if place < sizes[tag]}
        return found[:limit]

    async def find(self, digits: str, limit: int) -> list[bytes]:
        """A walk over the keys of one hash tag: Redis has no order to look them up by."""
        first = bytes.fromhex(digits[: len(digits) // 2 * 2])
        found: list[bytes] = []
        async for names in self._pages(layout.records_that_begin_with(first)):
            found += [name[-16:] for name in names if name[-16:].hex().startswith(digits)]
            if len(found) >= limit:
                break
        return found[:limit]

    async def sample(self, limit: int) -> Sample:
        """From the first steps of a SCAN on each node: without a pattern, so that what was passed over can be counted."""
        found: list[Listed] = []
        seen = there = 0
        with translated(self._client.target.shown):
            nodes = await self._client.primaries()
            for node in nodes:
                there += await node.ask(pack(b"DBSIZE"))
                cursor, of_node = b"0", 0
                while of_node * len(nodes) < limit:
                    cursor, keys = await node.ask(pack(b"SCAN", cursor, b"COUNT", _SCAN))
                    of_node += len(keys)
                    found += await self._listed([name[-16:] for name in keys if layout.is_record(name)])
                    if cursor == b"0":
                        break
                seen += of_node
        return Sample(found, min(1.0, seen / max(1, there)))

    async def _listed(self, digests: list[bytes]) -> list[Listed]:
        found = await self.get(digests)
        return [
            Listed(digest, replace(each.record, result=b""), each.now)
            for digest, each in zip(digests, found, strict=True)
            if each is not None
        ]

    async def records(self) -> AsyncIterator[list[Listed]]:
        async for names in self._pages(layout.RECORDS):
            yield await self._listed([name[-16:] for name in names])

    async def forget(self, keys: Sequence[bytes]) -> list[bool]:
        return await self._delete(keys, [layout.record_key, layout.mark_key])

    async def mark(self, marks: Sequence[Mark]) -> list[bool]:
        # Not repeated after a lost reply: the second try would find the first one's mark and call it a duplicate.
        keys = [mark.key for mark in marks]
        commands = layout.mark_commands(marks)
        try:
            answers = await self._client.send(commands, _tags(keys), repeat=False) if keys else []
        except StoreUnavailable as exc:
            # Each was decided by itself. Some may have been made, and so "nothing was done" would be wrong.
            exc.refused = exc.refused and len(marks) == 1
            raise
        return [answer is not None for answer in answers]

    async def unmark(self, marks: Sequence[Mark]) -> list[bool]:
        # Not repeated after a lost reply, as a release is not.
        answers = await self._call("unmark", marks, layout.unmark_args, layout.mark_key, repeat=False)
        return [answer == 1 for answer in answers]

    async def advance(self, numbers: Sequence[Number]) -> list[Verdict]:
        # Not repeated after a lost reply, for the same reason as a mark.
        answers = await self._call(
            "advance", numbers, layout.number_args, layout.sequence_key, repeat=False, timed=True
        )
        return [layout.VERDICTS[answer] for answer in answers]

    async def retire(self, keys: Sequence[bytes]) -> list[bool]:
        return await self._delete(keys, [layout.sequence_key])

    async def sequences(self) -> SequenceStats:
        producers, size = 0, 0
        async for keys in self._pages(layout.SEQUENCES):
            commands = [pack(b"MEMORY", b"USAGE", key) for key in keys]
            tags = [layout.tag(key[-16:]) for key in keys]
            sizes = await self._client.send(commands, tags) if keys else []
            producers += len(keys)
            size += sum(each or 0 for each in sizes)
        return SequenceStats(producers=producers, bytes=size)

    async def purge(self, limit: int) -> int:
        """Nothing to do: Redis removes what has expired."""
        return min(limit, 0)

    async def stats(self) -> Stats:
        situations: Counter[str] = Counter()
        marks = 0
        async for keys in self._pages(layout.MARKS):
            marks += len(keys)
        async for keys in self._pages(layout.RECORDS):
            for found in await self.get([key[-16:] for key in keys]):
                if found is not None:
                    situations[found.record.reported(found.now)] += 1
        return Stats(marks=marks, records=dict(situations), expired=0)

    async def check(self) -> Health:
        # A write that leaves nothing behind: a read-only replica or a missing right shows here.
        await self.mark([Mark(bytes(16), window=1)])
        with translated(self._client.target.shown):
            node = (await self._client.primaries())[0]
            info = layout.info(await node.ask(pack(b"INFO", b"server")))
        return layout.health(info)

    def copies(self) -> AsyncRedisCopies:
        return AsyncRedisCopies(self._client)

    async def close(self) -> None:
        await self._client.close()

    async def _delete(self, keys: Sequence[bytes], names: Sequence[Callable[[bytes], bytes]]) -> list[bool]:
        """Not repeated after a lost reply, nor done late: there may be something by then that nobody wants to lose."""
        if not keys:
            return []
        deleting, until = script("delete"), self._client.until()
        parts = [[name(key) for name in names] for key in keys]
        answers = await self._client.send(
            [_timed(until, deleting.call, part, []) for part in parts],
            _tags(keys),
            repeat=False,
            in_full=lambda n: _timed(until, deleting.in_full, parts[n], []),
        )
        return [any(answer) for answer in answers]

    async def _read(self, keys: Sequence[bytes], name: Callable[[bytes], bytes]) -> list[Any]:
        if not keys:
            return []
        reading = script("get")
        commands = [reading.call([name(key)], []) for key in keys]
        answers = await self._client.send(
            commands, _tags(keys), in_full=lambda n: reading.in_full([name(keys[n])], [])
        )
        return [answer[0] for answer in answers]

    async def _call(
        self,
        name: str,
        items: Sequence[T],
        args: Callable[[T], list[bytes]],
        key_name: Callable[[bytes], bytes] = layout.record_key,
        *,
        repeat: bool = True,
        timed: bool = False,
        deadline: float | None = None,
        on_repeat: Callable[[], None] | None = None,
    ) -> list[Any]:
        """One script call, or on Cluster one per hash tag; the answers in the order of the items."""
        if not items:
            return []
        running, until = script(name), deadline or self._client.until()
        groups: dict[int, list[int]] = {}
        for index, item in enumerate(items):
            tag = layout.tag(item.key) if self._is_cluster else ANYWHERE  # type: ignore[attr-defined]
            groups.setdefault(tag, []).append(index)
        parts = [_part([items[index] for index in members], args, key_name) for members in groups.values()]
        form = partial(_timed, until) if timed else _plain
        batches = await self._client.send(
            [form(running.call, *part) for part in parts],
            list(groups),
            repeat=repeat,
            in_full=lambda n: form(running.in_full, *parts[n]),
            deadline=deadline,
            on_repeat=on_repeat,
        )
        answers: list[Any] = [None] * len(items)
        for members, batch in zip(groups.values(), batches, strict=True):
            for index, answer in zip(members, batch, strict=True):
                answers[index] = answer
        return answers

    async def _pages(self, pattern: bytes) -> AsyncIterator[list[bytes]]:
        with translated(self._client.target.shown):
            for node in await self._client.primaries():
                cursor = b"0"
                while True:
                    cursor, keys = await node.ask(pack(b"SCAN", cursor, b"MATCH", pattern, b"COUNT", _SCAN))
                    yield keys
                    if cursor == b"0":
                        break


def _in_full(reading: Script, parts: list[tuple[list[bytes], list[bytes]]], place: int) -> bytes:
    return reading.in_full(*parts[place])


def _tags(keys: Sequence[bytes]) -> list[int]:
    return [layout.tag(key) for key in keys]


def _part(
    items: Sequence[Any],
    args: Callable[[Any], list[bytes]],
    key_name: Callable[[bytes], bytes] = layout.record_key,
) -> tuple[list[bytes], list[bytes]]:
    """The keys and the arguments of one call."""
    return [key_name(item.key) for item in items], [arg for item in items for arg in args(item)]


_Form = Callable[[list[bytes], list[bytes]], bytes]


def _plain(form: _Form, names: list[bytes], values: list[bytes]) -> bytes:
    return form(names, values)


def _timed(until: float, form: _Form, names: list[bytes], values: list[bytes]) -> Timed:
    """With the moment when its caller gives up as the first argument."""
    return Timed(until, lambda deadline: form(names, [b"%d" % deadline, *values]))
