# Written by tools/twins.py from src/dupeproof/stores/redis/_async/topology.py; change that file instead.
"""Where the keys live: on one server, on the primary Sentinel names, or spread over a Cluster by hash tag.

Not redis-py's clients for these: they repeat commands whose reply was lost, which would turn a mark of our own into a
duplicate. With 64 hash tags the map of a Cluster is a table of 64 entries.
"""

import time
from collections.abc import Sequence
from typing import Protocol

from msgspec.structs import replace
from redis import exceptions as theirs

from dupeproof.stores.redis._sync.node import Node
from dupeproof.stores.redis.layout import TAGS
from dupeproof.stores.redis.links import LinkOptions
from dupeproof.stores.redis.resp import pack
from dupeproof.stores.redis.slots import served_by
from dupeproof.stores.redis.targets import Address, Target

_ASKED_IN_TURN = 4
"""How many nodes may keep silent, one after the other, before the time of a call is used up."""


class Topology(Protocol):
    def known(self, tag: int) -> Node | None:
        """Where it lives, as far as that is known without asking; which is nearly always."""
        ...

    def node_for(self, tag: int) -> Node: ...

    def refresh(self) -> None:
        """Look again where things are, after an answer or a silence that says they moved."""
        ...

    def primaries(self) -> Sequence[Node]: ...

    def close(self) -> None: ...

    def discard(self) -> None:
        """Let go of everything at once, when the loop it was made in is gone."""
        ...


def topology(target: Target) -> Topology:
    if target.kind == "cluster":
        return Cluster(target.hosts, target.link)
    if target.kind == "sentinel":
        return Watched(target.hosts, target.service, target.link, target.sentinel_link)
    return Alone(target.hosts[0], target.link)


class Alone:
    """One server."""

    def __init__(self, address: Address, link: LinkOptions) -> None:
        self._node = Node(address, link)

    def known(self, tag: int) -> Node:  # noqa: ARG002 - every tag lives here
        return self._node

    def node_for(self, tag: int) -> Node:  # noqa: ARG002
        return self._node

    def refresh(self) -> None:
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
        asking = replace(sentinel_link, timeout=sentinel_link.timeout / len(sentinels))
        self._sentinels = [Node(address, asking) for address in sentinels]
        self._name = name.encode()
        self._link = link
        self._address: Address | None = None
        self._node: Node | None = None

    def known(self, tag: int) -> Node | None:  # noqa: ARG002 - every tag lives on the primary
        return self._node

    def node_for(self, tag: int) -> Node:  # noqa: ARG002
        if self._node is None:
            self.refresh()
        assert self._node is not None
        return self._node

    def refresh(self) -> None:
        failure: Exception = theirs.ConnectionError("no Sentinel knows a primary of this name")
        for sentinel in self._sentinels:
            try:
                found = sentinel.ask(pack(b"SENTINEL", b"GET-MASTER-ADDR-BY-NAME", self._name))
            except theirs.RedisError as exc:
                failure = exc
                continue
            if found is not None:
                self._move((found[0].decode(), int(found[1])))
                return
        if self._node is None:
            raise failure

    def _move(self, address: Address) -> None:
        if address != self._address:
            former, self._node = self._node, Node(address, self._link)
            self._address = address
            if former is not None:
                former.close()

    def primaries(self) -> Sequence[Node]:
        return [self.node_for(0)]

    def close(self) -> None:
        for node in self._all():
            node.close()

    def discard(self) -> None:
        for node in self._all():
            node.discard()

    def _all(self) -> list[Node]:
        return [*self._sentinels, *([] if self._node is None else [self._node])]


class Cluster:
    """The primaries of a Cluster, and which of them serves which tag."""

    def __init__(self, hosts: list[Address], link: LinkOptions) -> None:
        self._hosts = hosts
        self._link = link
        # Asked on connections of their own with little patience: a node that hangs must leave time for the next.
        self._asking = replace(link, timeout=link.timeout / _ASKED_IN_TURN)
        self._nodes: dict[Address, Node] = {}
        self._routes: dict[int, Address] = {}

    def known(self, tag: int) -> Node | None:
        return self.node(self._routes[tag]) if self._routes else None

    def node_for(self, tag: int) -> Node:
        if not self._routes:
            self.refresh()
        return self.node(self._routes[tag])

    def node(self, address: Address) -> Node:
        return self._nodes.get(address) or self._nodes.setdefault(address, Node(address, self._link))

    def refresh(self) -> None:
        """Ask the nodes we know, then those of the URL, for the first usable picture of the Cluster."""
        deadline = time.monotonic() + self._link.timeout
        failure: Exception | None = None
        for address in dict.fromkeys([*self._routes.values(), *self._hosts]):
            node = Node(address, self._asking)
            try:
                slots = node.ask(pack(b"CLUSTER", b"SLOTS"))
                self._routes = {tag: served_by(tag, slots, address) for tag in TAGS}
            except theirs.RedisError as exc:
                failure = exc
            else:
                return
            finally:
                node.close()
            if time.monotonic() > deadline:
                break
        if failure is not None and not self._routes:
            raise failure

    def primaries(self) -> Sequence[Node]:
        if not self._routes:
            self.refresh()
        return [self.node(address) for address in sorted(set(self._routes.values()))]

    def close(self) -> None:
        for node in self._nodes.values():
            node.close()

    def discard(self) -> None:
        for node in self._nodes.values():
            node.discard()
