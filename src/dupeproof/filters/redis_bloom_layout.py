"""A Bloom filter in Redis, in bytes: how large it is and where its parts are; bloom.lua does the same sums."""

import math
import struct
from functools import cache
from importlib.resources import files

from msgspec import Struct

from dupeproof.errors import ConfigError
from dupeproof.keys.names import check_namespace, key_digest
from dupeproof.stores.redis.layout import tag
from dupeproof.stores.redis.lua import Script, make_script

_MADE_FOR = struct.Struct(">Qd")
_HEAD = 24
_LARGEST = 2**32 - 8 * _HEAD
"""Bits of a Redis string, which is at most 512 MB, after what stands before them."""


class Shape(Struct, frozen=True):
    """How many bits there are, and how many places in them an id has."""

    bits: int
    places: int

    def error_rate(self, taken: float) -> float:
        """The chance that all places of a new id are taken, when this share of all bits is."""
        return float(taken**self.places)

    def share_taken(self, added: int) -> float:
        return -math.expm1(-self.places * added / self.bits)


def shape(capacity: int, error_rate: float) -> Shape:
    """Eight places where ten would take the least memory: a fifth less work for a sixtieth more of it."""
    places = max(1, round(-math.log2(error_rate) * 0.8))
    bits = math.ceil(-places * capacity / math.log1p(-(error_rate ** (1 / places))))
    return Shape(max(bits, 1_024), places)


class Names(Struct, frozen=True):
    """The keys of one filter, all with the same hash tag."""

    tag: int
    bits: bytes
    """The filter as a string, on a Redis without the module."""
    module: bytes
    """The filter of the module."""
    made_for: bytes
    """What the filter of the module was made for: it does not report its error rate."""


class Settings(Struct, frozen=True):
    name: str
    names: Names
    capacity: int
    error_rate: float
    shape: Shape
    made_for: bytes


class Held(Struct, frozen=True):
    """What a filter holds now."""

    added: int
    bytes: int
    error_rate: float
    generations: int = 1


def names(name: str) -> Names:
    digest = key_digest(check_namespace(name))("")
    letter = tag(digest)
    return Names(letter, *(b"%b{%c}%b" % (kind, letter, digest) for kind in (b"db", b"df", b"dp")))


def made_for(capacity: int, error_rate: float) -> bytes:
    return _MADE_FOR.pack(capacity, error_rate)


def check_made_for(name: str, wanted: bytes, found: bytes) -> None:
    if found != wanted:
        (capacity, error_rate), (ours, our_rate) = _MADE_FOR.unpack(found), _MADE_FOR.unpack(wanted)
        raise ConfigError(
            f"the filter {name!r} was made for {capacity} ids at {error_rate:g}, not for {ours} at {our_rate:g}; "
            "give the same capacity and error_rate, or another name"
        )


def check_fits(wanted: Shape) -> None:
    if wanted.bits > _LARGEST:
        most = wanted.bits / _LARGEST
        raise ConfigError(
            f"this filter needs {most:.1f} times the 512 MB that a Redis string can have; split the ids over several "
            "names, or use a Redis with the Bloom module"
        )


def size(wanted: Shape) -> int:
    return _HEAD + -(-wanted.bits // 8)


@cache
def bloom_script() -> Script:
    return make_script(files(__package__).joinpath("scripts", "bloom.lua").read_bytes())
