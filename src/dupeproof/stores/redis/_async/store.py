"""The store over Redis: one script call per verb and slot group, the server's clock, many ids per call."""

from collections import Counter
from collections.abc import Callable, Sequence
from typing import Any, TypeVar

from dupeproof.core.outcomes import Outcome
from dupeproof.core.records import (
    ClaimRequest,
    Fail,
    Finish,
    Found,
    FoundMark,
    Health,
    Mark,
    Release,
    Renew,
    Stats,
)
from dupeproof.stores.redis import layout
from dupeproof.stores.redis._async.client import ANYWHERE, AsyncClient, Call
from dupeproof.stores.redis.faults import translated
from dupeproof.stores.redis.targets import Target

T = TypeVar("T")
_SCAN = 500


class AsyncRedisStore:
    """Records and marks as plain string keys with a time to live; the server removes them by itself."""

    def __init__(self, target: Target) -> None:
        self._client = AsyncClient(target)

    async def claim(self, requests: Sequence[ClaimRequest]) -> list[Outcome]:
        answers = await self._call("claim", requests, layout.claim_args)
        return [layout.outcome(answer) for answer in answers]

    async def finish(self, changes: Sequence[Finish]) -> list[bool]:
        return [answer == 1 for answer in await self._call("finish", changes, layout.finish_args)]

    async def fail(self, changes: Sequence[Fail]) -> list[bool]:
        return [answer == 1 for answer in await self._call("fail", changes, layout.fail_args)]

    async def release(self, changes: Sequence[Release]) -> list[bool]:
        return [answer == 1 for answer in await self._call("release", changes, layout.release_args)]

    async def renew(self, changes: Sequence[Renew]) -> list[bool]:
        return [answer == 1 for answer in await self._call("renew", changes, layout.renew_args)]

    async def get(self, keys: Sequence[bytes]) -> list[Found | None]:
        answers = await self._run("get", keys, lambda key: [layout.record_key(key)], _nothing)
        return [layout.found(answer) for answer in answers]

    async def forget(self, keys: Sequence[bytes]) -> list[bool]:
        answers = await self._run("forget", keys, _both_keys, _nothing)
        return [answer == 1 for answer in answers]

    async def mark(self, marks: Sequence[Mark]) -> list[bool]:
        # Not repeated after a lost reply: the second try would find the first one's mark and call it a duplicate.
        answers = await self._run(
            "mark",
            marks,
            lambda mark: [layout.mark_key(mark.key)],
            lambda mark: [b"%d" % mark.window, layout.mark_value(mark)],
            digest=_key_of,
            repeat=False,
        )
        return [answer == 1 for answer in answers]

    async def unmark(self, marks: Sequence[Mark]) -> list[bool]:
        answers = await self._run(
            "unmark",
            marks,
            lambda mark: [layout.mark_key(mark.key)],
            lambda mark: [layout.mark_head(mark)],
            digest=_key_of,
        )
        return [answer == 1 for answer in answers]

    async def marks(self, keys: Sequence[bytes]) -> list[FoundMark | None]:
        answers = await self._run("get", keys, lambda key: [layout.mark_key(key)], _nothing)
        return [layout.found_mark(answer) for answer in answers]

    async def purge(self, limit: int) -> int:
        """Nothing to do: Redis removes what has expired."""
        return min(limit, 0)

    async def stats(self) -> Stats:
        marks = 0
        digests: list[bytes] = []
        situations: Counter[str] = Counter()
        with translated(self._client.shown):
            for node in await self._client.nodes():
                async for _ in node.scan_iter(match=layout.MARKS, count=_SCAN):
                    marks += 1
                digests += [key[-16:] async for key in node.scan_iter(match=layout.RECORDS, count=_SCAN)]
        for start in range(0, len(digests), _SCAN):
            for found in await self.get(digests[start : start + _SCAN]):
                if found is not None:
                    situations[str(found.record.situation(found.now))] += 1
        return Stats(marks=marks, records=dict(situations), expired=0)

    async def check(self) -> Health:
        # A write that leaves nothing behind: a read-only replica or a missing right shows here.
        await self.mark([Mark(bytes(16), window=1)])
        with translated(self._client.shown):
            info = await (await self._client.nodes())[0].info("server")
        return Health(store="redis", version=str(info["redis_version"]), details={"mode": info["redis_mode"]})

    async def close(self) -> None:
        await self._client.close()

    async def _call(self, name: str, items: Sequence[T], args: Callable[[T], list[bytes]]) -> list[Any]:
        return await self._run(name, items, _record_keys, args, digest=_key_of)

    async def _run(
        self,
        name: str,
        items: Sequence[T],
        keys: Callable[[T], list[bytes]],
        args: Callable[[T], list[bytes]],
        *,
        digest: Callable[[T], bytes] = lambda item: item,  # type: ignore[assignment,return-value]
        repeat: bool = True,
    ) -> list[Any]:
        """One script call, or on Cluster one per slot group; the answers in the order of the items."""
        if not items:
            return []
        groups: dict[int, list[int]] = {}
        for index, item in enumerate(items):
            tag = layout.tag(digest(item)) if self._client.is_cluster else ANYWHERE
            groups.setdefault(tag, []).append(index)
        calls = [
            Call(
                tag,
                [key for index in members for key in keys(items[index])],
                [arg for index in members for arg in args(items[index])],
            )
            for tag, members in groups.items()
        ]
        answers: list[Any] = [None] * len(items)
        batches = await self._client.call(name, calls, repeat=repeat)
        for members, batch in zip(groups.values(), batches, strict=True):
            for index, answer in zip(members, batch, strict=True):
                answers[index] = answer
        return answers


def _record_keys(item: Any) -> list[bytes]:
    return [layout.record_key(item.key)]


def _key_of(item: Any) -> bytes:
    key: bytes = item.key
    return key


def _both_keys(key: bytes) -> list[bytes]:
    return [layout.record_key(key), layout.mark_key(key)]


def _nothing(_item: object) -> list[bytes]:
    return []
