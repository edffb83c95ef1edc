"""Commands to where their keys live, and when they may be sent again."""

import time
from collections.abc import Callable, Sequence
from functools import partial
from typing import Any

from redis.exceptions import AskError, MovedError, NoScriptError

from dupeproof.stores._async.runtime import PerHome, gather, sleep
from dupeproof.stores.redis._async.node import AsyncNode
from dupeproof.stores.redis._async.topology import AsyncCluster, AsyncTopology, topology
from dupeproof.stores.redis.faults import CONNECTION_LOST, FAULTS, NOT_RUN, REFUSED, translated, unavailable
from dupeproof.stores.redis.resp import pack
from dupeproof.stores.redis.targets import Address, Target

_PAUSE = 0.1
ANYWHERE = 0
"""The tag to use where every key lives in one place."""


class AsyncClient:
    """Sends packed commands. Repeats one whose reply was lost only if told that it may."""

    def __init__(self, target: Target) -> None:
        self.target = target
        self._places = PerHome(lambda: topology(target), AsyncTopology.discard)

    async def ask(
        self,
        command: bytes,
        tag: int,
        *,
        repeat: bool = True,
        in_full: Callable[[], bytes] | None = None,
        deadline: float | None = None,
    ) -> Any:
        """The reply to one command. `in_full` gives it with the whole script in it."""
        places = self._places.get()
        if deadline is None:
            deadline = time.monotonic() + self.target.timeout
        patient = self.target.kind != "single"
        asked: Address | None = None
        tries = 0
        try:
            while True:
                tries += 1
                try:
                    if asked is not None and isinstance(places, AsyncCluster):
                        return await _ask_sent(places.node(asked), command)
                    return await (places.known(tag) or await places.node_for(tag)).ask(command)
                except NoScriptError:
                    # Nothing was run: the server has forgotten its scripts, or never saw this one.
                    if in_full is None:
                        raise
                    command, in_full = in_full(), None
                except MovedError:
                    asked = None
                    if time.monotonic() > deadline:
                        raise
                    await places.refresh()
                except AskError as exc:
                    if time.monotonic() > deadline:
                        raise
                    asked = (exc.host, exc.port)
                except NOT_RUN:
                    if not patient or time.monotonic() > deadline:
                        raise
                    await sleep(_PAUSE)
                    await places.refresh()
                except CONNECTION_LOST:
                    # A lone server gets one more try, for a connection that went stale; the others time to fail over.
                    if not repeat or not (tries == 1 or patient) or time.monotonic() > deadline:
                        raise
                    if tries > 1:
                        await sleep(_PAUSE)
                    await places.refresh()
        except FAULTS as exc:
            raise unavailable(self.target.shown, exc) from exc

    async def send(
        self,
        commands: Sequence[bytes],
        tags: Sequence[int],
        *,
        repeat: bool = True,
        in_full: Callable[[int], bytes] | None = None,
    ) -> list[Any]:
        """One reply per command, in order; those of one node travel together.

        `in_full` gives the n-th command with the whole script in it, for a server that does not know its digest.
        """
        if len(commands) == 1:
            whole = None if in_full is None else partial(in_full, 0)
            return [await self.ask(commands[0], tags[0], repeat=repeat, in_full=whole)]
        deadline = time.monotonic() + self.target.timeout
        with translated(self.target.shown):
            places = self._places.get()
            groups: dict[AsyncNode, Sequence[int]] = (
                await _by_node(places, tags)
                if self.target.kind == "cluster"
                else {await places.node_for(ANYWHERE): range(len(commands))}
            )
            parts = await gather(
                [
                    partial(self._together, node, [commands[index] for index in members], repeat=repeat)
                    for node, members in groups.items()
                ]
            )
            replies: list[Any] = [None] * len(commands)
            for members, part in zip(groups.values(), parts, strict=True):
                for index, reply in zip(members, part, strict=True):
                    if isinstance(reply, REFUSED):
                        # Not run: on its own it finds its way.
                        reply = await self.ask(  # noqa: PLW2901 - the answer takes the place of the refusal
                            commands[index],
                            tags[index],
                            repeat=repeat,
                            in_full=None if in_full is None else partial(in_full, index),
                            deadline=deadline,
                        )
                    elif isinstance(reply, Exception):
                        raise reply
                    replies[index] = reply
            return replies

    async def primaries(self) -> Sequence[AsyncNode]:
        return await self._places.get().primaries()

    async def close(self) -> None:
        places = self._places.take()
        if places is not None:
            await places.close()

    async def _together(self, node: AsyncNode, commands: Sequence[bytes], *, repeat: bool) -> list[Any]:
        try:
            return await node.ask_many(b"".join(commands), len(commands))
        except CONNECTION_LOST:
            if not repeat:
                raise
            return [_LOST] * len(commands)


_LOST = MovedError("0 lost:0")
"""Stands for a reply that never came, of a command that may be repeated."""


async def _by_node(places: AsyncTopology, tags: Sequence[int]) -> dict[AsyncNode, Sequence[int]]:
    groups: dict[AsyncNode, list[int]] = {}
    for index, tag in enumerate(tags):
        groups.setdefault(await places.node_for(tag), []).append(index)
    return dict(groups)


async def _ask_sent(node: AsyncNode, command: bytes) -> Any:
    """The slot is being moved; its new node serves it only to those who say that they were sent."""
    _, reply = await node.ask_many(pack(b"ASKING") + command, 2)
    if isinstance(reply, Exception):
        try:
            raise reply
        finally:
            del reply
    return reply
