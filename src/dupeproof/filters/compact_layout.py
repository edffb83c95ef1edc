"""What CompactSeen keeps in Redis, in bytes; compact.lua reads and writes the same."""

import struct
from functools import cache
from importlib.resources import files

from msgspec import Struct

from dupeproof.stores.redis.layout import TAGS
from dupeproof.stores.redis.lua import Script, make_script

_LINE = struct.Struct(">QQQI")
_MEMBER = struct.Struct(">q")
MEMBER_BITS = 64


class Generation(Struct, frozen=True):
    name: bytes
    """Of its sets, without the number of each."""
    sets: int

    def set_name(self, number: int) -> bytes:
        return self.name + number.to_bytes(4, "big")


class Sample(Struct, frozen=True):
    """A set of a generation as it is on average."""

    members: float
    bytes: float


@cache
def compact_script() -> Script:
    return make_script(files(__package__).joinpath("scripts", "compact.lua").read_bytes())


def book_key(tag: int, namespace: bytes) -> bytes:
    return b"dc{%c}%b" % (tag, namespace)


def tag_of(digest: bytes) -> int:
    return TAGS[digest[0] & 63]


def argument(digest: bytes) -> bytes:
    """Four bytes that choose the set, then the member as text, which Redis keeps as eight bytes."""
    return b"%b%d" % (digest[1:5], _MEMBER.unpack_from(digest, 8)[0])


def generations(book: bytes, key: bytes) -> list[Generation]:
    return [
        Generation(key + book[at : at + 8], _LINE.unpack_from(book, at)[3])
        for at in range(0, len(book), _LINE.size)
    ]


STATED_RATE = 1e-16
"""Three generations of full sets against 64 bits; more there are only while traffic multiplies."""


def collision_rate(members: float) -> float:
    """The chance that a new id meets one of so many members in all bits, in one look."""
    return members / 2.0**MEMBER_BITS
