"""Values as text the server reads, which every driver can send; and its binary answers as values."""

import re
import uuid
from collections.abc import Callable
from datetime import UTC, datetime, timedelta
from functools import cache
from struct import unpack
from typing import Any

from dupeproof.stores.postgres.queries import PreparedQuery
from dupeproof.stores.postgres.rows import (
    ARRAY_OF,
    BIGINT,
    BOOLEAN,
    BYTES,
    INTEGER,
    TEXT,
    TIMESTAMP,
    UUID,
    Answer,
    elements_of,
    fields_of,
)

_NAMES = {
    BOOLEAN: "boolean",
    BYTES: "bytea",
    BIGINT: "bigint",
    INTEGER: "integer",
    TEXT: "text",
    TIMESTAMP: "timestamptz",
    UUID: "uuid",
}
_ELEMENT_OF = {array: element for element, array in ARRAY_OF.items()}
_SMALLINT, _DOUBLE, _NAME, _VARCHAR, _VOID = 21, 701, 19, 1043, 2278
_NUMBERED = re.compile(r"\$(\d+)")
_YEAR_2000 = datetime(2000, 1, 1, tzinfo=UTC)


def moment(microseconds: int) -> datetime:
    """As the server counts them."""
    return _YEAR_2000 + timedelta(microseconds=microseconds)


def text_of(kind: int, data: bytes) -> str:
    """A parameter of one of our queries, which is packed for libpq."""
    if (element := _ELEMENT_OF.get(kind)) is not None:
        return array_text([text_of(element, each) for each in elements_of(data)])
    value = value_of(kind, data)
    return literal(value) or ""


def literal(value: Any) -> str | None:
    match value:
        case None:
            return None
        case bool():
            return "t" if value else "f"
        case bytes():
            return rf"\x{value.hex()}"
        case list() | tuple():
            return array_text([literal(each) or "" for each in value])
        case datetime():
            return value.isoformat()
        case uuid.UUID():
            return value.hex
    return str(value)


def array_text(elements: list[str]) -> str:
    quoted = ('"' + each.replace("\\", "\\\\").replace('"', '\\"') + '"' for each in elements)
    return "{" + ",".join(quoted) + "}"


def value_of(kind: int, data: bytes | None) -> Any:
    """What the server sent in binary form."""
    if data is None:
        return None
    return _VALUES[kind](data)


def _number(data: bytes) -> int:
    return int.from_bytes(data, "big", signed=True)


_VALUES: dict[int, Callable[[bytes], Any]] = {
    BOOLEAN: lambda data: data == b"\1",
    BYTES: lambda data: data,
    _SMALLINT: _number,
    INTEGER: _number,
    BIGINT: _number,
    _DOUBLE: lambda data: unpack(">d", data)[0],
    TEXT: bytes.decode,
    _NAME: bytes.decode,
    _VARCHAR: bytes.decode,
    UUID: lambda data: uuid.UUID(bytes=data),
    TIMESTAMP: lambda data: moment(_number(data)),
    _VOID: lambda _: None,
}


@cache
def numbered(statement: str) -> str:
    """`%s` as `$1`, `$2`, …"""
    first, *rest = statement.split("%s")
    return first + "".join(f"${number}{part}" for number, part in enumerate(rest, 1))


@cache
def portable_query(query: PreparedQuery) -> str:
    """One of our queries, with `:p1` for its parameters as text, and each row of its answer as one value."""

    def parameter(found: re.Match[str]) -> str:
        number = int(found[1])
        kind = query.types[number - 1]
        element = _ELEMENT_OF.get(kind)
        name = _NAMES[kind] if element is None else f"{_NAMES[element]}[]"
        return f"CAST(CAST(:p{number} AS text) AS {name})"

    text = _NUMBERED.sub(parameter, query.text.decode())
    return f"SELECT record_send(answer) FROM ({text}) AS answer"  # noqa: S608 - of texts of our own


def portable_statement(statement: str, parameters: Any) -> str:
    """`%s` as `:p1`, `:p2`, …, each as text, and then as what it is."""
    first, *rest = statement.split("%s")
    pieces = [first]
    for number, (value, part) in enumerate(zip(parameters, rest, strict=True), 1):
        text = f"CAST(:p{number} AS text)"
        match value:
            case bool():
                text = f"CAST({text} AS boolean)"
            case int():
                text = f"CAST({text} AS bigint)"
            case datetime():
                text = f"CAST({text} AS timestamptz)"
        pieces += (text, part)
    return "".join(pieces)


class RowsAnswer(Answer):
    """Rows that came as one value each."""

    def __init__(self, rows: list[bytes]) -> None:
        self._rows = [fields_of(row) for row in rows]

    @property
    def ntuples(self) -> int:
        return len(self._rows)

    @property
    def nfields(self) -> int:
        return len(self._rows[0]) if self._rows else 0

    def get_value(self, row_number: int, column_number: int, /) -> bytes | None:
        return self._rows[row_number][column_number]
