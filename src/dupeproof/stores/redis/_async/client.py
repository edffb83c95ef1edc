"""Script calls on one server, a Sentinel group or a Cluster: where they go, and when they may be sent again."""

import time
from collections.abc import Sequence
from typing import Any

from msgspec import Struct
from redis.exceptions import AskError, MovedError, NoScriptError

from dupeproof.stores._async.runtime import gather, sleep
from dupeproof.stores.redis._async.sessions import AsyncSessions
from dupeproof.stores.redis.faults import CONNECTION_LOST, NOT_RUN, REFUSED, translated
from dupeproof.stores.redis.scripting import script
from dupeproof.stores.redis.targets import Address, Target

_PAUSE = 0.1
ANYWHERE = 0
"""The tag to use where there is only one place to go."""


class Call(Struct, frozen=True):
    """One script call; all its keys have the same hash tag."""

    tag: int
    keys: list[bytes]
    args: list[bytes]


class AsyncClient:
    """Sends scripts to the node that has the keys. Repeats a call whose reply was lost only if told that it may."""

    def __init__(self, target: Target) -> None:
        self._target = target
        self._sessions = AsyncSessions(target)

    @property
    def is_cluster(self) -> bool:
        return self._target.kind == "cluster"

    @property
    def shown(self) -> str:
        return self._target.shown

    async def call(self, name: str, calls: Sequence[Call], *, repeat: bool) -> list[Any]:
        """The script's answers to each call, in order; the calls of one node travel together."""
        deadline = time.monotonic() + self._target.timeout
        with translated(self._target.shown):
            if len(calls) == 1:
                return [await self._call(name, calls[0], deadline, repeat=repeat)]
            by_node: dict[Any, list[int]] = {}
            for index, call in enumerate(calls):
                by_node.setdefault(await self._node(call.tag), []).append(index)
            answers: list[Any] = [None] * len(calls)
            parts = await gather(
                [
                    self._call_together(
                        node, name, [calls[index] for index in members], deadline, repeat=repeat
                    )
                    for node, members in by_node.items()
                ]
            )
            for members, part in zip(by_node.values(), parts, strict=True):
                for index, answer in zip(members, part, strict=True):
                    answers[index] = answer
            return answers

    async def nodes(self) -> list[Any]:
        """A client for every primary."""
        session = self._sessions.current()
        return [session.server] if session.cluster is None else await session.cluster.nodes()

    async def close(self) -> None:
        with translated(self._target.shown):
            await self._sessions.close()

    async def _call_together(
        self, node: Any, name: str, calls: Sequence[Call], deadline: float, *, repeat: bool
    ) -> list[Any]:
        sha = script(name).sha
        try:
            async with node.pipeline(transaction=False) as pipeline:
                for call in calls:
                    pipeline.evalsha(sha, len(call.keys), *call.keys, *call.args)
                answers: list[Any] = await pipeline.execute(raise_on_error=False)
        except CONNECTION_LOST:
            if not repeat:
                raise
            return [await self._call(name, call, deadline, repeat=repeat) for call in calls]
        for index, answer in enumerate(answers):
            if isinstance(answer, REFUSED):
                answers[index] = await self._call(name, calls[index], deadline, repeat=repeat)
            elif isinstance(answer, Exception):
                raise answer
        return answers

    async def _call(self, name: str, call: Call, deadline: float, *, repeat: bool) -> Any:
        asked: Address | None = None
        tries = 0
        while True:
            tries += 1
            node = await self._node(call.tag)
            try:
                return await self._evaluate(node, asked, name, call)
            except MovedError:
                asked = None
                if time.monotonic() > deadline:
                    raise
                await self._look_again()
            except AskError as exc:
                if time.monotonic() > deadline:
                    raise
                asked = (exc.host, exc.port)
            except NOT_RUN:
                if self._target.kind == "single" or time.monotonic() > deadline:
                    raise
                await sleep(_PAUSE)
                await self._look_again()
            except CONNECTION_LOST:
                # A lone server gets one more try, for a connection that went stale; the others time to fail over.
                hopeful = tries == 1 or self._target.kind != "single"
                if not repeat or not hopeful or time.monotonic() > deadline:
                    raise
                if tries > 1:
                    await sleep(_PAUSE)
                await self._look_again()

    async def _evaluate(self, node: Any, asked: Address | None, name: str, call: Call) -> Any:
        cluster = self._sessions.current().cluster
        if asked is not None and cluster is not None:
            return await _evaluate_asking(cluster.node(asked), name, call)
        return await _evaluate(node, name, call)

    async def _node(self, tag: int) -> Any:
        session = self._sessions.current()
        return session.server if session.cluster is None else await session.cluster.node_for(tag)

    async def _look_again(self) -> None:
        cluster = self._sessions.current().cluster
        if cluster is not None:
            await cluster.refresh()


async def _evaluate(node: Any, name: str, call: Call) -> Any:
    known = script(name)
    try:
        return await node.evalsha(known.sha, len(call.keys), *call.keys, *call.args)
    except NoScriptError:
        # Nothing was run: the server has forgotten its scripts, or never saw this one.
        return await node.eval(known.text, len(call.keys), *call.keys, *call.args)


async def _evaluate_asking(node: Any, name: str, call: Call) -> Any:
    """The slot is being moved; its new node serves it only to those who say that they were sent."""
    async with node.pipeline(transaction=False) as pipeline:
        pipeline.execute_command("ASKING")
        pipeline.eval(script(name).text, len(call.keys), *call.keys, *call.args)
        _, answer = await pipeline.execute()
        return answer
