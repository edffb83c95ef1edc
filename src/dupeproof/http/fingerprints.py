"""What makes two requests the same: method, path, query, media type and body, as one digest."""

import json
import re
from collections.abc import Callable, Iterable, Sequence
from decimal import Decimal
from functools import lru_cache
from hashlib import blake2b
from typing import Any, NamedTuple

from dupeproof.errors import DupeproofError
from dupeproof.keys.fingerprints import digest
from dupeproof.keys.names import DIGEST_SIZE

_SHORT = 200
"""Addresses up to this length are worth remembering; longer ones would only fill the memory."""
_BOUNDARY = re.compile(rb'(?i);\s*boundary=(?:"([^"]{1,200})"|([^\s;,"]{1,200}))')


class Head(NamedTuple):
    """What is compared of a request before its body."""

    method: str
    path: str
    query: bytes
    content_type: bytes
    chosen: bytes = b""
    """Of headers that were named, their values as `header_digest` gives them."""

    @property
    def place(self) -> str:
        """The path as it is compared. Frameworks send clients on to where a slash ends it, or does not: a retry that begins
        again where the first request began is no other request.
        """
        return self.path.removesuffix("/")


def request_digest(head: Head, body: Iterable[bytes]) -> bytes:
    """16 bytes. The boundary of a multipart body does not count: clients draw a new one for every try."""
    media_type, delimiter = _parsed(head.content_type)
    joined = _head if len(head.path) + len(head.query) <= _SHORT else _head.__wrapped__
    hasher = blake2b(joined(head.method, head.place, head.query, media_type), digest_size=DIGEST_SIZE)
    hasher.update(head.chosen)
    for chunk in body if delimiter is None else _part_digests(body, delimiter):
        hasher.update(chunk)
    return hasher.digest()


def chosen_digest(head: Head, value: object) -> bytes:
    """Of a request of which the app has chosen what counts; method and path always do."""
    return digest([head.method, head.place, head.chosen, value])


def json_digest(head: Head, body: Iterable[bytes]) -> bytes:
    """By what a JSON body says. Of what is no JSON, says something twice or more than a float holds, the bytes count."""
    whole = b"".join(body)
    try:
        content = json.loads(
            whole, object_pairs_hook=_distinct, parse_float=_exact, parse_constant=_refuse_constant
        )
        return digest([head.method, head.place, head.query, head.chosen, content])
    except (ValueError, ArithmeticError, RecursionError, DupeproofError):
        return request_digest(head, (whole,))


def header_digest(names: Sequence[str], values_of: Callable[[str], Sequence[str]]) -> bytes:
    """Of these headers; one that is missing differs from one that is empty."""
    return digest([[name, list(values_of(name))] for name in names])


def is_json(content_type: bytes) -> bool:
    media_type, _ = _parsed(content_type)
    return media_type == b"application/json" or media_type.endswith(b"+json")


def _distinct(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
    found = dict(pairs)
    if len(found) < len(pairs):
        raise ValueError("a name stands twice")
    return found


def _exact(text: str) -> float:
    """Two amounts that differ only further behind are two amounts, to a handler that reads decimals."""
    number = float(text)
    if Decimal(text) != Decimal(repr(number)):
        raise ValueError("more digits than a float has")
    return number


def _refuse_constant(name: str) -> object:
    raise ValueError(f"JSON has no {name}")


@lru_cache(512)
def _head(method: str, path: str, query: bytes, media_type: bytes) -> bytes:
    """The lengths go first, so that no two requests look the same because their parts are divided differently."""
    where = path.encode("utf-8", "surrogatepass")
    return b"%b %d %d %d %b%b%b" % (
        method.encode("latin-1", "replace"),
        len(where),
        len(query),
        len(media_type),
        where,
        query,
        media_type,
    )


def form_digests(
    fields: Iterable[tuple[str, object]], files: Iterable[tuple[tuple[str | None, ...], Iterable[bytes]]]
) -> Iterable[bytes]:
    """In place of the bytes of a form that somebody has parsed already: the digest of each of its parts."""
    for field in fields:
        yield _part_digest(field)
    for head, chunks in files:
        yield _part_digest(head, chunks)


def _part_digest(head: tuple[object, ...], chunks: Iterable[bytes] = ()) -> bytes:
    described = blake2b(repr(head).encode("utf-8", "surrogatepass"), digest_size=DIGEST_SIZE)
    content = blake2b(digest_size=DIGEST_SIZE)
    for chunk in chunks:
        content.update(chunk)
    return described.digest() + content.digest()


@lru_cache(256)
def _parsed(content_type: bytes) -> tuple[bytes, bytes | None]:
    """The media type, and for a multipart body what its parts are divided by."""
    media_type = content_type.partition(b";")[0].strip().lower()
    found = _BOUNDARY.search(content_type) if media_type.startswith(b"multipart/") else None
    return media_type, None if found is None else b"--" + (found[1] or found[2])


def _part_digests(body: Iterable[bytes], delimiter: bytes) -> Iterable[bytes]:
    """The digest of what stands between each two delimiters, wherever the chunks begin and end."""
    part = blake2b(digest_size=DIGEST_SIZE)
    waiting = b""
    for chunk in body:
        *whole, waiting = (waiting + chunk).split(delimiter)
        for piece in whole:
            part.update(piece)
            yield part.digest()
            part = blake2b(digest_size=DIGEST_SIZE)
        # What may be the beginning of a delimiter is looked at again with the next chunk.
        sure = max(0, len(waiting) - len(delimiter) + 1)
        part.update(waiting[:sure])
        waiting = waiting[sure:]
    part.update(waiting)
    yield part.digest()
