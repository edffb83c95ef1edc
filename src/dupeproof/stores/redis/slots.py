"""From a hash tag to the node that serves it, by the cluster's own answer to CLUSTER SLOTS."""

from collections.abc import Sequence
from functools import cache
from typing import Any

from redis.crc import key_slot
from redis.exceptions import ClusterDownError

from dupeproof.stores.redis.targets import Address


@cache
def slot_of(tag: int) -> int:
    return int(key_slot(b"{%c}" % tag))


def served_by(tag: int, slots: Sequence[Any], asked: Address) -> Address:
    """The primary that serves the tag. A node that does not know its own address means the one we asked."""
    slot = slot_of(tag)
    for first, last, primary, *_replicas in slots:
        if first <= slot <= last:
            host, port = _text(primary[0]), int(primary[1])
            return (host or asked[0], port)
    raise ClusterDownError("no node serves a slot that is needed")


def _text(value: Any) -> str:
    return value.decode() if isinstance(value, bytes) else str(value or "")
