"""The statements on the hot path, with their parameters' types: sent and answered in binary, past the driver's cursor."""

from typing import NamedTuple
from zlib import crc32

from dupeproof.stores.postgres.binary import ARRAY_OF, BIGINT, BOOLEAN, BYTES, INTEGER, TEXT, UUID
from dupeproof.stores.postgres.statements import statement


class Question(NamedTuple):
    text: bytes
    types: tuple[int, ...]
    formats: tuple[int, ...]
    name: bytes
    """Under which a connection knows it. The same name always means the same text, whoever prepared it."""


def _question(verb: str, *types: int) -> Question:
    text = statement(verb).encode()
    name = f"dupeproof_{verb}_v1_{crc32(text):08x}".encode()
    return Question(text, types, (1,) * len(types), name)


def _batch(verb: str, *elements: int) -> Question:
    return _question(verb, *(ARRAY_OF[element] for element in elements))


CLAIM = _question("claim", UUID, BYTES, BYTES, TEXT, BIGINT, BIGINT, BOOLEAN, INTEGER)
CLAIM_MANY = _batch("claim_many", UUID, BYTES, BYTES, TEXT, BIGINT, BIGINT, BOOLEAN, INTEGER)
FINISH = _batch("finish", UUID, BYTES, BYTES, BIGINT, TEXT, BYTES)
FAIL = _batch("fail", UUID, BYTES, BIGINT, TEXT, BOOLEAN)
RELEASE = _batch("release", UUID, BYTES, BIGINT, BOOLEAN)
RENEW = _batch("renew", UUID, BYTES, BIGINT, BIGINT)
MARK = _batch("mark", UUID, BIGINT, BYTES, BYTES)
