"""An array of bits and the hash functions over it, from fastbloom-rs: stable, in Rust, a quarter of a microsecond an id."""

import math
from typing import Any

from fastbloom_rs import PyBloomFilter, PyFilterBuilder

Bits = Any
"""fastbloom-rs has no types. Used of it: add_str_if_not_contains, contains_str_batch, get_bytes, hashes."""
_ROOM = 20
_PROBE = "dupeproof"


def make_bits(capacity: int, error_rate: float) -> Bits:
    """For so many ids at this rate; a small one is made larger than it would need to be.

    The places of an id are a first one and equal steps from there. In an array of m bits two ids meet in all of them
    with a chance of about 2 / m, whatever the number of places, so m must be large by the measure of the rate.
    """
    bits_per_id = -math.log(error_rate) / math.log(2) ** 2
    least = math.ceil(_ROOM / error_rate / bits_per_id)
    return PyFilterBuilder(max(capacity, least), error_rate).build_bloom_filter()


def restored_bits(data: bytes, hashes: int) -> Bits:
    return PyBloomFilter.from_bytes(data, hashes)


def probe(bits: Bits) -> list[int]:
    """The places of a fixed text: other places mean other hash functions."""
    places: list[int] = bits.get_hash_indices_str(_PROBE)
    return places


def size(bits: Bits) -> int:
    """Bytes it takes."""
    return int(bits.config().size()) // 8


def error_rate(bits: Bits) -> float:
    """The chance that all places of a new id are taken already, from how many are."""
    data = bits.get_bytes()
    taken = int.from_bytes(data, "little").bit_count() / (8 * len(data))
    return float(taken ** bits.hashes())
