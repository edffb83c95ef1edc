"""Values in PostgreSQL's binary form. The driver's way with lists costs more than the server's work on them."""

import struct
from collections.abc import Sequence

BOOLEAN, BYTES, BIGINT, INTEGER, TEXT, TIMESTAMP, UUID = 16, 17, 20, 23, 25, 1184, 2950
"""Types of elements, by the numbers the server knows them under."""
ARRAY_OF = {BOOLEAN: 1000, BYTES: 1001, BIGINT: 1016, INTEGER: 1007, TEXT: 1009, UUID: 2951}

_HEAD = struct.Struct(">iiiii")
_SIZE = struct.Struct(">i")
_FIELD = struct.Struct(">ii")
"""Its type and its size, which is negative for NULL."""
_UUID_SIZE = _SIZE.pack(16)


def boolean(value: bool) -> bytes:
    return b"\1" if value else b"\0"


def bigint(value: int) -> bytes:
    return value.to_bytes(8, "big", signed=True)


def integer(value: int) -> bytes:
    return value.to_bytes(4, "big", signed=True)


def array(element: int, values: Sequence[bytes]) -> bytes:
    """One dimension, counted from 1, nothing missing."""
    head = _HEAD.pack(1, 0, element, len(values), 1)
    if len(values) == 1:
        return head + _SIZE.pack(len(values[0])) + values[0]
    parts = [head]
    for value in values:
        parts += (_SIZE.pack(len(value)), value)
    return b"".join(parts)


def bytes_array(values: Sequence[bytes]) -> bytes:
    return array(BYTES, values)


def text_array(values: Sequence[str]) -> bytes:
    return array(TEXT, [value.encode() for value in values])


def boolean_array(values: Sequence[bool]) -> bytes:
    return array(BOOLEAN, [boolean(value) for value in values])


def bigint_array(values: Sequence[int]) -> bytes:
    return array(BIGINT, [bigint(value) for value in values])


def integer_array(values: Sequence[int]) -> bytes:
    return array(INTEGER, [integer(value) for value in values])


def uuid_array(digests: Sequence[bytes]) -> bytes:
    """All of one size, so they can be adapted by it."""
    elements = _UUID_SIZE + _UUID_SIZE.join(digests) if digests else b""
    return _HEAD.pack(1, 0, UUID, len(digests), 1) + elements


def uuids_of(data: bytes | None) -> list[bytes]:
    """The digests in an array the server sent; none in NULL."""
    if data is None:
        return []
    step = _SIZE.size + 16
    return [data[start : start + 16] for start in range(_HEAD.size + _SIZE.size, len(data), step)]


def elements_of(data: bytes) -> list[bytes]:
    """The elements of an array as `array` makes it."""
    elements, at = [], _HEAD.size
    while at < len(data):
        (size,) = _SIZE.unpack_from(data, at)
        start = at + _SIZE.size
        at = start + size
        elements.append(data[start:at])
    return elements


def fields_of(data: bytes) -> list[bytes]:
    """The fields of a row the server sent as one value; nothing for NULL."""
    fields, at = [], _SIZE.size
    while at < len(data):
        _, size = _FIELD.unpack_from(data, at)
        start = at + _FIELD.size
        at = start + size if size > 0 else start
        fields.append(data[start:at])
    return fields
