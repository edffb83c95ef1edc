"""Commands to where their keys live, and when they may be sent again.

Twice is too often for some verbs, and a server that dies or hangs may have done what it was asked. So three cases are
distinguished: what was never sent or not run (always sent again, while there is time), what may have been run (only with
`repeat`), and what was not answered in time.
"""

import time
from collections.abc import Callable, Sequence
from functools import partial
from typing import Any

from redis.exceptions import AskError, MovedError, NoScriptError
from redis.exceptions import TimeoutError as NoAnswer

from dupeproof.process_local_async import PerLoop
from dupeproof.stores.redis.faults import (
    CONNECTION_LOST,
    FAULTS,
    NOT_RUN,
    REFUSED,
    Late,
    NotSent,
    translated,
    unavailable,
)
from dupeproof.stores.redis.resp import Command, pack
from dupeproof.stores.redis.targets import Address, Target
from dupeproof.stores.redis.topology_async import AsyncServer, AsyncSharded, AsyncTopology, topology
from dupeproof.stores.runtime_async import gather, sleep

_PAUSE = 0.1
ANYWHERE = 0
"""The tag to use where every key lives in one place."""


class AsyncClient:
    """Sends packed commands. Repeats one whose reply was lost only with `repeat`."""

    def __init__(self, target: Target, places: Callable[[], AsyncTopology] | None = None) -> None:
        """`places` is how the servers are reached, where that is not by connections of our own."""
        self.target = target
        self._places = PerLoop(places or partial(topology, target), _discard)

    def until(self) -> float:
        """When a call that is made now is given up."""
        return time.monotonic() + self.target.timeout

    async def ask(
        self,
        command: Command,
        tag: int,
        *,
        repeat: bool = True,
        in_full: Callable[[], Command] | None = None,
        deadline: float | None = None,
        on_repeat: Callable[[], None] | None = None,
    ) -> Any:
        """The reply to one command. `in_full` gives it with the whole script in it.

        `on_repeat` is called before it is sent again although it may have been, or may yet be, carried out.
        """
        places = self._places.get()
        if deadline is None:
            deadline = self.until()
        patient = self.target.kind != "single"
        asked: Address | None = None
        node: AsyncServer | None = None
        tries = 0
        why: Exception | None = None
        try:
            while True:
                tries += 1
                if tries > 1:
                    places = self._places.get()  # others, if the guard was closed meanwhile
                try:
                    if asked is not None and isinstance(places, AsyncSharded):
                        return await _ask_sent(places.node(asked), command)
                    node = places.known(tag)
                    if node is not None and tries == 1:
                        return await node.ask(command)
                    node = node or await places.node_for(tag)
                    return await node.ask(command, _left(deadline, why))
                except NoScriptError:
                    # Nothing was run: the server has forgotten its scripts, or never saw this one.
                    if in_full is None:
                        raise
                    command, in_full = in_full(), None
                except Late:
                    # Or its clock was set, and this one was in time.
                    if node is None or time.monotonic() > deadline:
                        raise
                    node.clock.doubt()
                except MovedError:
                    asked = None
                    places.doubt()
                    if time.monotonic() > deadline:
                        raise
                except AskError as exc:
                    if time.monotonic() > deadline:
                        raise
                    asked = (exc.host, exc.port)
                except NOT_RUN as exc:
                    why = exc
                    # Sentinels and clusters get time to fail over, a lone server none: nobody takes its place.
                    asked = None
                    places.doubt()
                    if not patient or time.monotonic() > deadline:
                        raise
                    await sleep(_PAUSE)
                except CONNECTION_LOST:
                    # A lone server gets one more try, for a connection that went stale.
                    asked = None
                    places.doubt()
                    if not repeat or not (tries == 1 or patient) or time.monotonic() > deadline:
                        raise
                    if on_repeat is not None:
                        on_repeat()
                    if tries > 1:
                        await sleep(_PAUSE)
                except NoAnswer:
                    # Others may have waited for longer on the same connection, so that there is time left for this one.
                    asked = None
                    places.doubt()
                    if not repeat or time.monotonic() > deadline:
                        raise
                    if on_repeat is not None:
                        on_repeat()
        except FAULTS as exc:
            raise unavailable(self.target.shown, exc) from exc

    async def send(
        self,
        commands: Sequence[Command],
        tags: Sequence[int],
        *,
        repeat: bool = True,
        in_full: Callable[[int], Command] | None = None,
        deadline: float | None = None,
        on_repeat: Callable[[], None] | None = None,
    ) -> list[Any]:
        """One reply per command, in order; those of one node travel together.

        `in_full` gives the n-th command with the whole script in it, for a server that does not know its digest.
        """
        if len(commands) == 1:
            whole = None if in_full is None else partial(in_full, 0)
            return [
                await self.ask(
                    commands[0], tags[0], repeat=repeat, in_full=whole, deadline=deadline, on_repeat=on_repeat
                )
            ]
        deadline = deadline or self.until()
        with translated(self.target.shown):
            places = self._places.get()
            if self.target.kind == "cluster":
                groups = await _by_node(places, tags)
            else:
                only = places.known(ANYWHERE) or await places.node_for(ANYWHERE)
                groups = {only: range(len(commands))}
            parts = await gather(
                [
                    partial(self._together, node, [commands[index] for index in members], repeat=repeat)
                    for node, members in groups.items()
                ]
            )
            replies: list[Any] = [None] * len(commands)
            for members, part in zip(groups.values(), parts, strict=True):
                for index, reply in zip(members, part, strict=True):
                    if reply is _LOST and on_repeat is not None:
                        on_repeat()
                    if isinstance(reply, REFUSED):
                        # Not run: on its own it finds its way.
                        reply = await self.ask(  # noqa: PLW2901 - the answer takes the place of the refusal
                            commands[index],
                            tags[index],
                            repeat=repeat,
                            in_full=None if in_full is None else partial(in_full, index),
                            deadline=deadline,
                            on_repeat=on_repeat,
                        )
                    elif isinstance(reply, Exception):
                        raise reply
                    replies[index] = reply
            return replies

    async def primaries(self) -> Sequence[AsyncServer]:
        return await self._places.get().primaries()

    async def close(self) -> None:
        places = self._places.take()
        if places is not None:
            await places.close()

    async def _together(self, node: AsyncServer, commands: Sequence[Command], *, repeat: bool) -> list[Any]:
        """The replies of one node. Where none came, what may be sent again is answered with why, as if by the server."""
        try:
            return await node.ask_many(commands)
        except NOT_RUN as exc:
            return [exc] * len(commands)
        except CONNECTION_LOST:
            self._places.get().doubt()
            if not repeat:
                raise
            return [_LOST] * len(commands)
        except NoAnswer:
            self._places.get().doubt()
            raise


def _discard(places: AsyncTopology) -> None:
    places.discard()


_LOST = NotSent("lost its connection")
"""Stands for a reply that never came, of a command that may be repeated."""


def _left(deadline: float, why: Exception | None) -> float:
    """Seconds; or why it was not found until then, such as a certificate of all its Sentinels."""
    left = deadline - time.monotonic()
    if left <= 0:
        raise why or NotSent("was not found in time")
    return left


async def _by_node(places: AsyncTopology, tags: Sequence[int]) -> dict[AsyncServer, Sequence[int]]:
    groups: dict[AsyncServer, list[int]] = {}
    for index, tag in enumerate(tags):
        groups.setdefault(places.known(tag) or await places.node_for(tag), []).append(index)
    return dict(groups)


async def _ask_sent(node: AsyncServer, command: Command) -> Any:
    """The slot is being moved; its new node serves it only to those who say that they were sent."""
    _, reply = await node.ask_many([pack(b"ASKING"), command])
    if isinstance(reply, Exception):
        try:
            raise reply
        finally:
            del reply
    return reply
