# Written by tools/twins.py from src/dupeproof/stores/redis/topology_async.py; change that file instead.
"""Where the keys live: on one server, on the primary Sentinel names, or spread over a Cluster by hash tag.

Not redis-py's clients for these: they repeat commands whose reply was lost, which would turn a mark of our own into a
duplicate. What they are good at is when to look again, and that is kept to here: Sentinels are asked for every new
connection, as their protocol for clients has it, and the map of a Cluster is read again after every answer, silence or
refusal that says it may be outdated. With 64 hash tags that map is a table of 64 entries.
"""

import time
from collections.abc import Sequence
from copy import copy
from typing import Any, Protocol, runtime_checkable

from msgspec.structs import replace
from redis import exceptions as theirs

from dupeproof.stores.redis.faults import NotSent
from dupeproof.stores.redis.layout import TAGS
from dupeproof.stores.redis.links import LinkOptions, ServerClock, unanswered
from dupeproof.stores.redis.node import Locate, Node
from dupeproof.stores.redis.resp import Command, pack
from dupeproof.stores.redis.slots import served_by
from dupeproof.stores.redis.targets import Address, Target
from dupeproof.stores.runtime import Lock

_ASKED_IN_TURN = 4
"""How many nodes may keep silent, one after the other, before the time of a call is used up."""
_SENTINELS_REST = 1.0
"""Seconds for which the Sentinels' word is taken. In a planned fail-over nobody closes the connections to a primary that
goes on for some seconds: this bounds how long it is written to."""
_SHARE_OF_SENTINELS = 20
"""They rest for so many times as long as their answer took: Sentinels that are all away must not slow down every call."""


class Server(Protocol):
    """One server, over connections of our own or of the caller's client."""

    clock: ServerClock

    def ask(self, command: Command, patience: float | None = None) -> Any: ...

    def ask_many(self, commands: Sequence[Command]) -> list[Any]: ...


class Topology(Protocol):
    def known(self, tag: int) -> Server | None:
        """Where it lives, as far as that is known without asking; which is nearly always."""
        ...

    def node_for(self, tag: int) -> Server: ...

    def doubt(self) -> None:
        """After an answer or a silence that says things may have moved: look again before the next command."""
        ...

    def primaries(self) -> Sequence[Server]: ...

    def close(self) -> None: ...

    def discard(self) -> None:
        """Let go of everything at once, when the loop it was made in is gone."""
        ...


@runtime_checkable
class Sharded(Topology, Protocol):
    """Where a server may send a command on to another one."""

    def node(self, address: Address) -> Server: ...


def topology(target: Target) -> Topology:
    if target.kind == "cluster":
        return Cluster(target.hosts, target.link)
    if target.kind == "sentinel":
        return Watched(target.hosts, target.service, target.link, target.sentinel_link)
    return Alone(target.hosts[0], target.link)


def _at(address: Address) -> Locate:
    def locate() -> Address:
        return address

    return locate


class Alone:
    """One server."""

    def __init__(self, address: Address, link: LinkOptions) -> None:
        self._node = Node(_at(address), link)

    def known(self, tag: int) -> Node:  # noqa: ARG002 - every tag lives here
        return self._node

    def node_for(self, tag: int) -> Node:  # noqa: ARG002
        return self._node

    def doubt(self) -> None:
        """There is nowhere else to look."""

    def primaries(self) -> Sequence[Node]:
        return [self._node]

    def close(self) -> None:
        self._node.close()

    def discard(self) -> None:
        self._node.discard()


class Watched:
    """The primary of a group that Sentinels watch."""

    def __init__(
        self, sentinels: list[Address], name: str, link: LinkOptions, sentinel_link: LinkOptions
    ) -> None:
        # If all of them keep silent, half of a call's time is left for the primary.
        asking = replace(sentinel_link, timeout=sentinel_link.timeout / 2 / len(sentinels))
        self._sentinels = [Node(_at(address), asking) for address in sentinels]
        self._name = name.encode()
        self._node = Node(self._locate, replace(link, primary=True))
        self._lock = Lock()
        self._sure_until = 0.0
        self._named_by: Node | None = None
        self._doubted: Node | None = None
        """The Sentinel whose word was taken last, and the one whose word led nowhere."""

    def known(self, tag: int) -> Node | None:  # noqa: ARG002 - every tag lives on the primary
        return self._node if time.monotonic() < self._sure_until else None

    def node_for(self, tag: int) -> Node:  # noqa: ARG002
        with self._lock:
            if time.monotonic() >= self._sure_until and self._node.address is not None:
                self._look()
        return self._node

    def doubt(self) -> None:
        self._sure_until = 0.0
        self._doubted = self._named_by

    def _look(self) -> None:
        """Whether the connections there are still lead to the primary; new ones ask for themselves."""
        began = time.monotonic()
        try:
            if self._locate() != self._node.address:
                self._node.disconnect()
        except theirs.RedisError:
            # No Sentinel answers. Connections that work are used on, and no new ones are made.
            self._rest(began)
        else:
            self._rest(began)

    def _rest(self, began: float) -> None:
        now = time.monotonic()
        self._sure_until = now + max(_SENTINELS_REST, _SHARE_OF_SENTINELS * (now - began))

    def _locate(self) -> Address:
        failure: Exception = NotSent("has no primary of this name, as far as its Sentinels know")
        # One that is cut off from the others may name the old primary for ever, so it is not the only one to be asked.
        asked = sorted(self._sentinels, key=lambda each: each is self._doubted)
        for place, sentinel in enumerate(asked):
            try:
                found = sentinel.ask(pack(b"SENTINEL", b"GET-MASTER-ADDR-BY-NAME", self._name))
            except theirs.RedisError as exc:
                failure = unanswered(exc)
                continue
            if found is not None:
                # Next time this one is asked first, and those that were silent come last.
                self._sentinels = asked[place:] + asked[:place]
                self._named_by, self._doubted = sentinel, None
                return found[0].decode(), int(found[1])
        raise failure

    def primaries(self) -> Sequence[Node]:
        return [self.node_for(0)]

    def close(self) -> None:
        for node in self._all():
            node.close()

    def discard(self) -> None:
        for node in self._all():
            node.discard()

    def _all(self) -> list[Node]:
        return [*self._sentinels, self._node]


class Cluster:
    """The primaries of a Cluster, and which of them serves which tag."""

    def __init__(self, hosts: list[Address], link: LinkOptions) -> None:
        self._hosts = hosts
        self._link = link
        # Asked on connections of their own with little patience: a node that hangs must leave time for the next.
        self._asking = replace(link, timeout=link.timeout / _ASKED_IN_TURN)
        self._nodes: dict[Address, Node] = {}
        self._routes: dict[int, Address] = {}
        self._doubts = 1
        self._dispelled = 0
        """Doubts that had come up when the picture was read; those that came after it are about this picture."""
        self._answered: Address | None = None
        self._failures = 0
        self._failure: Exception | None = None
        """How often nobody gave a picture, and why the last time."""
        self._lock = Lock()

    def known(self, tag: int) -> Node | None:
        return self.node(self._routes[tag]) if self._dispelled == self._doubts else None

    def node_for(self, tag: int) -> Node:
        self._look()
        return self.node(self._routes[tag])

    def node(self, address: Address) -> Node:
        return self._nodes.get(address) or self._nodes.setdefault(address, Node(_at(address), self._link))

    def doubt(self) -> None:
        self._doubts += 1

    def _look(self) -> None:
        """Ask the nodes we know, then those of the URL, for the first usable picture of the Cluster."""
        failures = self._failures
        with self._lock:
            doubts = self._doubts
            if self._dispelled == doubts:
                return
            if self._failure is not None and self._failures != failures:
                # Asked in vain while this one waited: if all were to ask in turn, the last would wait for all of them.
                raise copy(self._failure)
            try:
                self._read_routes()
            except theirs.RedisError as exc:
                self._failures, self._failure = self._failures + 1, copy(exc)  # without its traceback
                raise
            self._dispelled = doubts

    def _read_routes(self) -> None:
        deadline = time.monotonic() + self._link.timeout
        failure: Exception = NotSent("has no node that answers")
        known = [*self._routes.values(), *self._hosts]
        for address in dict.fromkeys(known if self._answered is None else [self._answered, *known]):
            node = Node(_at(address), self._asking)
            try:
                slots = node.ask(pack(b"CLUSTER", b"SLOTS"))
                self._routes = {tag: served_by(tag, slots, address) for tag in TAGS}
                self._answered = address
            except theirs.RedisError as exc:
                failure = unanswered(exc)
            else:
                return
            finally:
                node.close()
            if time.monotonic() > deadline:
                break
        raise failure

    def primaries(self) -> Sequence[Node]:
        self._look()
        return [self.node(address) for address in sorted(set(self._routes.values()))]

    def close(self) -> None:
        for node in list(self._nodes.values()):
            node.close()

    def discard(self) -> None:
        for node in self._nodes.values():
            node.discard()
