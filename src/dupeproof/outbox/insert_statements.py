"""The statements that add messages, per dialect; sent on the caller's connection, inside its transaction."""

from collections.abc import Iterator, Sequence
from functools import lru_cache
from typing import Any

from msgspec import Struct

from dupeproof.outbox.messages import FIELDS, Row
from dupeproof.sql.statements import Dialect, numbered

CHANNEL = "dupeproof_outbox"
_MOST_ROWS = 500
"""In one statement: drivers and databases have limits for the number of parameters."""
_COLUMNS = "shard, id, aggregatetype, aggregateid, type, payload, headers, not_before"
_GIVEN = ", ".join(f":{name}" for name in FIELDS[:-2])
_NOW = {
    "sqlite": "CAST((julianday('now') - 2440587.5) * 86400000 AS INTEGER)",
    "mysql": "TIMESTAMPDIFF(MICROSECOND, '1970-01-01', UTC_TIMESTAMP(3)) DIV 1000",
}
_AT = "(timestamptz 'epoch' + CAST(:not_before AS bigint) * interval '1 millisecond')"


class _Adding(Struct, frozen=True):
    columns: str
    row: str


def _in_milliseconds(now: str, given: str = _GIVEN) -> _Adding:
    return _Adding(f"{_COLUMNS}, created_at", f"({given}, coalesce(:not_before, {now} + :delay), {now})")


_ADDING: dict[Dialect, _Adding] = {
    # One whose time is past stands among those without: the marks from which a relay reads rely on it.
    "postgresql": _Adding(
        _COLUMNS,
        f"(CASE WHEN {_AT} <= clock_timestamp() THEN -1 - CAST(:shard AS integer) ELSE CAST(:shard AS integer) END, "
        f"{_GIVEN.removeprefix(':shard, ')}, "
        f"coalesce({_AT}, clock_timestamp() + CAST(:delay AS bigint) * interval '1 millisecond'))",
    ),
    "sqlite": _in_milliseconds(_NOW["sqlite"]),
    # As hex: not every driver can send bytes.
    "mysql": _in_milliseconds(_NOW["mysql"], _GIVEN.replace(":payload", "UNHEX(:payload)")),
}


def additions(dialect: Dialect, rows: Sequence[Row], *, notify: bool) -> Iterator[tuple[str, dict[str, Any]]]:
    """Statements with their parameters that write the rows, in their order."""
    for start in range(0, len(rows), _MOST_ROWS):
        part = rows[start : start + _MOST_ROWS]
        as_hex = dialect == "mysql"
        parameters = {
            f"{name}{n}": value.hex() if as_hex and isinstance(value, bytes) else value
            for n, row in enumerate(part)
            for name, value in zip(FIELDS, row, strict=True)
        }
        yield _addition(dialect, len(part), notify=notify), parameters


@lru_cache(32)
def _addition(dialect: Dialect, count: int, *, notify: bool) -> str:
    adding = _ADDING[dialect]
    rows = ", ".join(numbered(adding.row, n) for n in range(count))
    statement = f"INSERT INTO dupeproof_outbox ({adding.columns}) VALUES {rows}"  # noqa: S608 - nothing of the caller's is in it
    if notify and dialect == "postgresql":
        # In the same round trip; all notifications of one transaction are sent as one, when it is committed.
        return f"WITH added AS ({statement}) SELECT pg_notify('{CHANNEL}', '')"
    return statement
