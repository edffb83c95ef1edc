"""The statements on the hot path, with their parameters' types: sent and answered in binary, past the driver's cursor."""

from typing import NamedTuple
from zlib import crc32

from dupeproof.stores.postgres.rows import (
    ARRAY_OF,
    BIGINT,
    BOOLEAN,
    BYTES,
    INTEGER,
    TEXT,
    TIMESTAMP,
    UUID,
)
from dupeproof.stores.postgres.statements import statement


class PreparedQuery(NamedTuple):
    text: bytes
    types: tuple[int, ...]
    formats: tuple[int, ...]
    name: bytes = b""
    """Under which a connection is taught it. The same name always means the same text, whoever taught it. Batches
    have none: reading the statement costs the server little against the work it asks for."""
    dated: bool = False
    """Whether the moment until which the caller waits comes as its last parameter: after that it does nothing."""


def _one(verb: str, *types: int, dated: bool = False) -> PreparedQuery:
    text = statement(verb).encode()
    name = b"dupeproof_%b_v1_%08x" % (verb.encode(), crc32(text))
    return _query(text, types, name, dated=dated)


def _many(verb: str, *elements: int, dated: bool = False) -> PreparedQuery:
    types = tuple(ARRAY_OF[element] for element in elements)
    return _query(statement(verb).encode(), types, b"", dated=dated)


def _query(text: bytes, types: tuple[int, ...], name: bytes, *, dated: bool) -> PreparedQuery:
    types += (TIMESTAMP,) if dated else ()
    return PreparedQuery(text, types, (1,) * len(types), name, dated)


_CLAIM = (UUID, BYTES, BYTES, TEXT, BIGINT, BIGINT, BOOLEAN, INTEGER, TEXT, TEXT)
CLOCK = _query(statement("clock").encode(), (INTEGER, INTEGER), b"", dated=False)
CLAIM = _one("claim", *_CLAIM, dated=True)
CLAIM_MANY = _many("claim_many", *_CLAIM, dated=True)
FINISH = _one("finish", UUID, BYTES, BYTES, BIGINT, TEXT, BYTES)
FINISH_MANY = _many("finish_many", UUID, BYTES, BYTES, BIGINT, TEXT, BYTES)
FAIL = _many("fail", UUID, BYTES, BIGINT, TEXT, TEXT, BIGINT)
RELEASE = _many("release", UUID, BYTES, BIGINT, BOOLEAN)
RENEW = _many("renew", UUID, BYTES, BIGINT, BIGINT, BYTES, BYTES)
MARK = _one("mark", UUID, BIGINT, BYTES, BYTES, dated=True)
MARK_MANY = _many("mark_many", UUID, BIGINT, BYTES, BYTES, dated=True)
