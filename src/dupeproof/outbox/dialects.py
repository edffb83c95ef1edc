"""The statements that add messages, per dialect; sent on the caller's connection, inside its transaction."""

from collections.abc import Callable, Sequence
from typing import Any

from msgspec import Struct

from dupeproof.outbox.messages import Row

CHANNEL = "dupeproof_outbox"
_COLUMNS = "(lane, id, aggregatetype, aggregateid, type, payload, headers, not_before"
_NOW_IN_SQLITE = "CAST((julianday('now') - 2440587.5) * 86400000 AS INTEGER)"


class Statements(Struct, frozen=True):
    one: str
    many: str
    """Of the same parameters, each as an array, or to be executed once for each row."""
    fit: Callable[[Row], Sequence[Any]] = tuple
    """The parameters as the driver takes them."""


def _with_milliseconds(row: Row) -> Sequence[Any]:
    *fields, not_before, delay = row
    return *fields, None if not_before is None else int(not_before.timestamp() * 1_000), delay


_POSTGRES_ONE = (
    f"INSERT INTO dupeproof_outbox {_COLUMNS}) VALUES (%s, %s, %s, %s, %s, %s, %s, "  # noqa: S608 - nothing of the caller's is in it
    "coalesce(%s, clock_timestamp() + %s::bigint * interval '1 millisecond'))"
)
_POSTGRES_MANY = (
    f"INSERT INTO dupeproof_outbox {_COLUMNS}) SELECT lane, id, topic, key, type, payload, headers, "  # noqa: S608 - the same
    "coalesce(not_before, clock_timestamp() + delay * interval '1 millisecond') "
    "FROM unnest(%s::smallint[], %s::text[], %s::text[], %s::text[], %s::text[], %s::bytea[], %s::text[], "
    "%s::timestamptz[], %s::bigint[]) WITH ORDINALITY "
    "AS a (lane, id, topic, key, type, payload, headers, not_before, delay, place) ORDER BY place"
)
_SQLITE = (
    f"INSERT INTO dupeproof_outbox {_COLUMNS}, created_at) "  # noqa: S608 - the same
    f"VALUES (?, ?, ?, ?, ?, ?, ?, coalesce(?, {_NOW_IN_SQLITE} + ?), {_NOW_IN_SQLITE})"
)
_MYSQL = (
    f"INSERT INTO dupeproof_outbox {_COLUMNS}) VALUES (%s, %s, %s, %s, %s, %s, %s, "  # noqa: S608 - the same
    "coalesce(timestampadd(microsecond, %s * 1000, '1970-01-01'), "
    "timestampadd(microsecond, %s * 1000, utc_timestamp(3))))"
)

STATEMENTS = {
    "postgresql": Statements(_POSTGRES_ONE, _POSTGRES_MANY),
    "sqlite": Statements(_SQLITE, _SQLITE, _with_milliseconds),
    "mysql": Statements(_MYSQL, _MYSQL, _with_milliseconds),
}


def _notifying(statement: str) -> str:
    """In the same round trip; all notifications of one transaction are sent as one, when it is committed."""
    return f"WITH added AS ({statement}) SELECT pg_notify('{CHANNEL}', '')"


NOTIFYING = STATEMENTS | {"postgresql": Statements(_notifying(_POSTGRES_ONE), _notifying(_POSTGRES_MANY))}
"""Where the database can tell a relay that there is something to do."""
