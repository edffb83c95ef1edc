"""Newest wins: the version an entity has got, how versions are ordered, and the statement that decides. Pure.

Drivers and databases compare numbers, times and texts each in a way of their own. So a version is stored as bytes in the order
of the versions, and the digest of its message follows them: what is greater is newer, and what is equal is the same message.
"""

import re
from datetime import UTC, datetime, timedelta
from enum import Enum
from typing import Any

from dupeproof.core.events import Kind
from dupeproof.errors import KeyInvalid, KeyMissing
from dupeproof.sql.statements import Dialect
from dupeproof.stores.purge_statements import SQLITE_NOW

Version = int | datetime | str


class Recency(Enum):
    """What a message is to what its entity has got. True only where it is the first, so `if inbox.newer(…):` is right."""

    FIRST = "first"
    """Newer than all before it."""
    STALE = "stale"
    """Something newer came before."""
    DUPLICATE = "duplicate"
    """This very message was the last one to change it."""

    @property
    def first(self) -> bool:
        return self is Recency.FIRST

    @property
    def stale(self) -> bool:
        return self is Recency.STALE

    @property
    def duplicate(self) -> bool:
        return self is Recency.DUPLICATE

    def __bool__(self) -> bool:
        return self is Recency.FIRST


KIND_OF = {Recency.FIRST: Kind.FRESH, Recency.STALE: Kind.STALE, Recency.DUPLICATE: Kind.SEEN}
"""The event of each."""

_BITS = 128
_HALF = 1 << (_BITS - 1)
_EPOCH = datetime(1970, 1, 1, tzinfo=UTC)
_MICROSECOND = timedelta(microseconds=1)
_MAX_TEXT = 255
_NUMBERS = re.compile(r"[+-]?\d+(\.\d+)*")
_OTHER = "mixed"
"""What the statement answers where the version before was of another type."""


def ordered(version: object) -> tuple[str, bytes]:
    """The type of a version, and bytes in the order of the versions of that type: equal for equal ones only."""
    if version is None:
        raise KeyMissing("the version is None; pass the version, sequence number or time of the event")
    if isinstance(version, int) and not isinstance(version, bool):
        return "int", _number(int(version))
    if isinstance(version, datetime):
        if version.utcoffset() is None:
            raise KeyInvalid(
                "the version is a datetime without a time zone, and nobody knows which moment that is; pass an aware one, "
                "such as datetime.now(UTC)"
            )
        return "datetime", _number((version - _EPOCH) // _MICROSECOND)
    if isinstance(version, str):
        return "str", _text(str.__str__(version)) + b"\0"
    raise KeyInvalid(
        f"a version cannot be of type {type(version).__qualname__}; pass an int, an aware datetime or a str, which are "
        "compared and stored exactly"
    )


def _number(value: int) -> bytes:
    if not -_HALF <= value < _HALF:
        raise KeyInvalid(f"a version that is an int must fit into {_BITS} bits")
    return (value + _HALF).to_bytes(_BITS // 8, "big")


def _text(value: str) -> bytes:
    if not value:
        raise KeyMissing("the version is empty; pass the version, sequence number or time of the event")
    if _NUMBERS.fullmatch(value):
        raise KeyInvalid(
            "the version is a number written as text, and as texts '10' comes before '9'; pass int(version), or a tuple of "
            "numbers put into one"
        )
    if "\0" in value:
        raise KeyInvalid("the version contains a NUL character; remove it")
    try:
        encoded = value.encode()
    except UnicodeEncodeError:
        raise KeyInvalid("the version contains a lone surrogate, which has no UTF-8 form") from None
    if len(encoded) > _MAX_TEXT:
        raise KeyInvalid(f"a version that is a str must not be longer than {_MAX_TEXT} bytes")
    return encoded


def recency_of(answer: str, kind_before: str, kind: str) -> Recency:
    if answer == _OTHER:
        raise KeyInvalid(
            f"the versions of this entity were of type {kind_before} so far, and this one is of type {kind}; the two have no "
            "order, so pass the same type each time (inbox.forget_entity begins anew)"
        )
    return Recency(answer)


def values(dialect: Dialect, entity: bytes, kind: str, version: bytes) -> dict[str, Any]:
    """The parameters of `NEWER`, without the window."""
    binary = dialect == "sqlite"
    return {
        "entity": entity if binary else entity.hex(),
        "kind": kind,
        "version": version if binary else version.hex(),
    }


def _deciding(known: str, kind: str, version: str, now: str) -> tuple[str, str]:
    """Whether the row is taken over, and the answer. An entity whose window is over is as good as none."""
    expired = f"{known}expires_at <= {now}"
    other = f"{known}kind <> {kind}"
    first = f"({expired} OR (NOT {other} AND {known}version < {version}))"
    answer = (
        f"CASE WHEN {first} THEN 'first' WHEN {other} THEN '{_OTHER}'"
        f" WHEN {known}version = {version} THEN 'duplicate' ELSE 'stale' END"
    )
    return first, answer


def _upsert(insert: str, known: str) -> str:
    """All that is decided is decided by one reading of the clock, the one of the row that was to be inserted."""
    first, answer = _deciding(known, "excluded.kind", "excluded.version", "excluded.changed_at")
    taken_over = ", ".join(
        f"{column} = CASE WHEN {first} THEN excluded.{column} ELSE {known}{column} END"
        for column in ("kind", "version", "changed_at", "expires_at")
    )
    return (
        f"{insert} ON CONFLICT (entity) DO UPDATE SET answer = {answer}, {taken_over} RETURNING answer, kind"
    )


_COLUMNS = "(entity, kind, version, answer, changed_at, expires_at)"
_FIRST_IN_MYSQL, _ANSWER_IN_MYSQL = _deciding("", ":kind", "UNHEX(:version)", "UTC_TIMESTAMP(3)")
_MYSQL_UNTIL = "UTC_TIMESTAMP(3) + INTERVAL :window * 1000 MICROSECOND"
NEWER: dict[Dialect, str] = {
    "postgresql": _upsert(
        f"INSERT INTO dupeproof_entities AS known {_COLUMNS}"  # noqa: S608
        " SELECT CAST(CAST(:entity AS text) AS uuid), CAST(:kind AS text), decode(CAST(:version AS text), 'hex'), 'first',"
        " now.at, now.at + CAST(:window AS bigint) * interval '1 millisecond' FROM (SELECT clock_timestamp() AS at) AS now",
        "known.",
    ),
    "sqlite": _upsert(
        f"INSERT INTO dupeproof_entities {_COLUMNS}"  # noqa: S608
        f" VALUES (:entity, :kind, :version, 'first', {SQLITE_NOW}, {SQLITE_NOW} + :window)",
        "dupeproof_entities.",
    ),
    # Assigned from left to right: the answer first, which decides about the rest.
    "mysql": f"INSERT INTO dupeproof_entities {_COLUMNS} VALUES"  # noqa: S608
    f" (UNHEX(:entity), :kind, UNHEX(:version), 'first', UTC_TIMESTAMP(3), {_MYSQL_UNTIL})"
    f" ON DUPLICATE KEY UPDATE answer = {_ANSWER_IN_MYSQL}, kind = IF(answer = 'first', :kind, kind),"
    " version = IF(answer = 'first', UNHEX(:version), version),"
    " changed_at = IF(answer = 'first', UTC_TIMESTAMP(3), changed_at),"
    f" expires_at = IF(answer = 'first', {_MYSQL_UNTIL}, expires_at)",
}
"""Takes the version of an entity if it is the newest. Gives the answer, and the type of the version that is there.

The row is written whatever the answer is: that makes another transaction with the same entity wait, and tells the answer in the
same step. No column of an index changes unless the version does.
"""
ANSWER = "SELECT answer, kind FROM dupeproof_entities WHERE entity = UNHEX(:entity) FOR UPDATE"
"""MySQL gives no rows for what it has written; the row is locked by then, and read as it is, not as the transaction began."""
_KEY: dict[Dialect, str] = {
    "postgresql": "CAST(CAST(:entity AS text) AS uuid)",
    "sqlite": ":entity",
    "mysql": "UNHEX(:entity)",
}
FORGET: dict[Dialect, str] = {
    dialect: f"DELETE FROM dupeproof_entities WHERE entity = {key}"  # noqa: S608
    for dialect, key in _KEY.items()
}
